"""Ten procedures of a site with a custom user model."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth import get_user_model
from django.utils import timezone
from modernrpc.server import RpcServer
from notes.models import Note

from mcp_bridge import Context, ToolError, mcp_tool

server = RpcServer()
CHANGE = "notes.change_note"
Person = get_user_model()
NAME = Person.USERNAME_FIELD


def find(text: str) -> Note:
    note = Note.objects.filter(text=text).first()
    if note is None:
        raise ToolError(f"There is no note {text!r}: notes_list shows the texts.")
    return note


@server.register_procedure
@mcp_tool(read_only=True)
def whoami(context: Context) -> str:
    """Return the caller's name."""
    return context.user.get_username()


@server.register_procedure
@mcp_tool(read_only=True)
def people_list() -> list[str]:
    """List the names that people log in with."""
    return list(Person.objects.order_by(NAME).values_list(NAME, flat=True))


@server.register_procedure
@mcp_tool(read_only=True)
def people_count() -> int:
    """Count the people."""
    return Person.objects.count()


@server.register_procedure
@mcp_tool(read_only=True)
def person_read(name: str) -> bool:
    """Return whether a person may log in."""
    return Person.objects.get_by_natural_key(name).is_active


@server.register_procedure
@mcp_tool(read_only=True)
def notes_list() -> list[str]:
    """List the texts of the notes."""
    return list(Note.objects.order_by("text").values_list("text", flat=True))


@server.register_procedure
@mcp_tool(read_only=True)
def note_read(note: UUID) -> str:
    """Read a note."""
    return Note.objects.get(pk=note).text


@server.register_procedure
@mcp_tool(permissions=CHANGE)
def note_create(context: Context, text: str) -> str:
    """Write a note."""
    return Note.objects.create(writer=context.user, text=text).text


@server.register_procedure
@mcp_tool(permissions=CHANGE)
def note_change(text: str, new_text: str) -> str:
    """Give a note another text."""
    note = find(text)
    note.text = new_text
    note.save()
    return new_text


@server.register_procedure
@mcp_tool(permissions=CHANGE, confirm=True)
def note_publish(text: str) -> str:
    """Publish a note."""
    note = find(text)
    note.published_at = timezone.now()
    note.save()
    return f"{text} is published."


@server.register_procedure
@mcp_tool(permissions="auth.delete_group", destructive=True)
def person_deactivate(name: str) -> str:
    """Take a person's access away."""
    Person.objects.filter(**{NAME: name}).update(is_active=False)
    return f"{name} may no longer log in."
