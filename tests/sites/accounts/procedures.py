"""Ten procedures of a site with a user model of its own."""

from __future__ import annotations

from uuid import UUID

from django.utils import timezone
from modernrpc.server import RpcServer
from people.models import Note, Person

from mcp_bridge import Context, ToolError, mcp_tool

server = RpcServer()
CHANGE = "people.change_note"


def find(text: str) -> Note:
    note = Note.objects.filter(text=text).first()
    if note is None:
        raise ToolError(f"There is no note {text!r}: notes_list shows the texts.")
    return note


@server.register_procedure
@mcp_tool(read_only=True)
def whoami(context: Context) -> str:
    """Tell who calls."""
    return context.user.get_username()


@server.register_procedure
@mcp_tool(read_only=True)
def people_list() -> list[str]:
    """List the addresses of the people."""
    return list(Person.objects.order_by("email").values_list("email", flat=True))


@server.register_procedure
@mcp_tool(read_only=True)
def people_count() -> int:
    """Count the people."""
    return Person.objects.count()


@server.register_procedure
@mcp_tool(read_only=True)
def person_read(person: UUID) -> str:
    """Read a person's name."""
    return Person.objects.get(pk=person).name


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
@mcp_tool(permissions="people.change_person", destructive=True)
def person_deactivate(email: str) -> str:
    """Take a person's access away."""
    Person.objects.filter(email=email).update(is_active=False)
    return f"{email} may no longer log in."
