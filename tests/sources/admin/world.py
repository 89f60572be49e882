"""A newsroom, an admin that serves tools, and what an act in it comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.core import serializers
from django.db import transaction
from django.db.models import signals
from django.urls import path

from mcp_bridge.features import Context
from mcp_bridge.sources.admin.forms import Form
from mcp_bridge.sources.admin.pages import open_page
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from testproject.newsroom.models import Article, Author, Comment, Media, Section
from testproject.newsroom.seeding.users import seed_users

BACKEND = "mcp_bridge.sources.admin.AdminSource"
MODELS = (Section, Author, Article, Media, Comment)
# The permissions of a viewer and of one who may only add, beside the newsroom's own roles.
VIEWER = ("view_section", "view_author", "view_article", "view_media", "view_comment")
ADDER = ("add_section", "add_author", "add_article", "add_comment")
# The admin whose acts are served.
SITE = admin.site
_SIGNALS = (signals.pre_save, signals.post_save, signals.pre_delete, signals.post_delete)


def serve(settings: Any, site: admin.AdminSite | None = None, /, **options: Any) -> None:
    """Serve acts of an admin as tools, until the test ends; all of the newsroom by default."""
    globals()["SITE"] = site or admin.site
    options = {"operations": ["newsroom.*"], **options}
    settings.MCP_BRIDGE = {"SOURCES": {"admin": {"BACKEND": BACKEND, "OPTIONS": options}}}
    route(settings, path("admin/", (site or admin.site).urls))


@dataclass
class World:
    """Users by name, and the rows of a small newsroom."""

    users: dict[str, Any]
    politics: Section
    sport: Section
    harbour: Article
    match: Article
    comments: list[Comment] = field(default_factory=list)

    @classmethod
    def make(cls) -> World:
        users = seed_users()
        for name, codenames in (("viewer", VIEWER), ("adder", ADDER)):
            users[name] = type(users["editor"]).objects.create_user(name, is_staff=True)
            users[name].user_permissions.set(Permission.objects.filter(codename__in=codenames))
        users["root"] = type(users["editor"]).objects.create_superuser("root")
        politics = Section.objects.create(name="Politics", slug="politics")
        sport = Section.objects.create(name="Sport", slug="sport", description="Games & more.")
        author = Author.objects.get(user=users["editor"])
        shared = {"author": author, "section": politics, "tags": ["sea", 7]}
        harbour = Article.objects.create(
            title="Harbour", slug="harbour", body="One.\nTwo.", **shared
        )
        match = Article.objects.create(
            title="Match", slug="match", body='"Yes" & <b>no</b>', **shared
        )
        world = cls(users, politics, sport, harbour, match)
        for name, text in (("reader", "First"), ("author", " Second\n")):
            row = Comment.objects.create(article=harbour, user=users[name], text=text)
            world.comments.append(row)
        Media.objects.create(
            title="Dusk", alt_text="The sea", mime_type="image/png", data=b"1", article=harbour
        )
        return world

    def client(self, name: str) -> CheckedClient:
        return CheckedClient(user=self.users[name])


@dataclass
class Outcome:
    """The outcome of an act: the rows after it, the log, the signals, and the texts of errors."""

    rows: list[str]
    log: list[tuple[Any, ...]]
    signals: list[tuple[str, str]]
    errors: list[str]
    saved: bool
    # Whether the errors are those of the form, and not of the tool's schema.
    of_form: bool


def observe(act: Callable[[], tuple[bool, list[str]]]) -> Outcome:
    """Return what an act comes to, which returns whether it succeeded, and the errors; undo it."""
    with transaction.atomic():
        before = LogEntry.objects.count()
        with heard() as sent:
            saved, errors = act()
        entries = LogEntry.objects.order_by("pk")[before:]
        log = [
            (it.user_id, it.object_repr, it.action_flag, unsigned(it.change_message))
            for it in entries
        ]
        rows = [line for it in MODELS for line in dump(it)]
        transaction.set_rollback(True)
    of_form = not any(": String should" in each or ": Input should" in each for each in errors)
    return Outcome(rows, log, sent, sorted(errors), saved, of_form)


def dump(model: Any) -> list[str]:
    """Return the rows of a model as JSON, without what the time of the act decides."""
    rows = list(model.objects.order_by("pk"))
    data = serializers.serialize("python", rows)
    timed = ("updated_at", "created_at", "published_at")
    return [str({k: v for k, v in each["fields"].items() if k not in timed}) for each in data]


def unsigned(message: str) -> str:
    """Return the message of a log entry without the name of the client."""
    for text in (
        ', {"changed": {"fields": ["by mcp_bridge.testing"]}}',
        ', {"added": {"name": "by", "object": "mcp_bridge.testing"}}',
        "(by mcp_bridge.testing)",
    ):
        message = message.replace(text, "")
    return message.strip()


@contextmanager
def heard() -> Iterator[list[tuple[str, str]]]:
    """Collect the signals of the newsroom's models."""
    sent: list[tuple[str, str]] = []

    def hear(sender: Any, instance: Any, signal: Any, **others: Any) -> None:
        if sender in MODELS:
            sent.append((str(_SIGNALS.index(signal)), str(instance)))

    for each in _SIGNALS:
        each.connect(hear)
    try:
        yield sent
    finally:
        for each in _SIGNALS:
            each.disconnect(hear)


def call(client: CheckedClient, tool: str, /, **arguments: Any) -> tuple[bool, list[str]]:
    """Call a tool; return whether it succeeded, and the lines of its error."""
    result = client.call_tool(tool, arguments)
    is_error = bool(result.get("isError"))
    return not is_error, text_of(result).splitlines() if is_error else []


def value(client: CheckedClient, tool: str, /, **arguments: Any) -> Any:
    """Return the value of a call, which must succeed."""
    result = client.call_tool(tool, arguments)
    assert not result.get("isError"), text_of(result)
    return result["structuredContent"]


def complaint(client: CheckedClient, tool: str, /, **arguments: Any) -> str:
    """Return the text of a call, which must fail."""
    result = client.call_tool(tool, arguments)
    assert result.get("isError"), result
    return text_of(result)


def serve_site(settings: Any, site: admin.AdminSite, **options: Any) -> None:
    """Serve the acts of another AdminSite."""
    serve(settings, site, site=f"{__name__}.SITE", **options)


def own_site(settings: Any, *admins: tuple[Any, Any], **options: Any) -> World:
    """Serve an admin of these ModelAdmin classes as tools."""
    site = admin.AdminSite()
    for model, kind in admins:
        site.register(model, kind)
    serve_site(settings, site, **options)
    return World.make()


def definition(world: World, name: str) -> dict[str, Any]:
    return next(each for each in world.client("root").list_tools() if each["name"] == name)


def properties(world: World, name: str) -> dict[str, Any]:
    found: dict[str, Any] = definition(world, name)["inputSchema"]["properties"]
    return found


def version_of(world: World, model: Any, row: Any) -> str:
    """Return the version of a row, as ``get`` returns it."""
    kind = SITE.get_model_admin(model)
    context = Context(user=world.users["root"])
    return Form.of(kind, open_page(context, kind, "change", row).data("adminform")).version
