"""A site with a row of each kind on its admin pages, and all users who may open these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import include, path, reverse
from django.utils import timezone
from oauth2_provider.models import get_access_token_model, get_application_model

from mcp_bridge import ToolError
from mcp_bridge.admin.base import PagesAdmin
from mcp_bridge.models import PendingCall, Scope, ToolCallRecord, ToolSetting
from mcp_bridge.protocol.tasks import TASKS
from mcp_bridge.records.rows import flush
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import sync_tool_settings
from mcp_bridge.remote.models import RemoteServer
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.testing import MCPClient
from mcp_bridge.tokens import urls as own_tokens
from mcp_bridge.tokens.models import Token
from tests.admin.test_candidates import ManySource
from tests.support.administrator import serve_tools

# From the most permissions to none. The chief may do everything with tools, calls, scopes and
# tokens, but for issuing these for others; the viewer may view all of the site; the issuer may only
# add tokens.
PEOPLE = ("root", "chief", "viewer", "issuer", "clerk", "member", "nobody")
CANDIDATE = "api_0001"
# Tables whose rows record changes, beside those of the bridge.
_OWN = (
    *("mcp_bridge", "mcp_bridge_tokens", "mcp_bridge_oauth", "mcp_bridge_remote"),
    "mcp_bridge_tasks",
)
_APPS = (*_OWN, "oauth2_provider", "auth", "admin")


def shout(word: str) -> str:
    """Shout a word, once a person has agreed."""
    return word


def look(word: str = "a") -> str:
    """Look at a word."""
    return word


def fail(word: str) -> str:
    """Fail with a word of the caller's."""
    raise ToolError(f"There is no {word}.")


def fresh() -> str:
    """Return a word; the tool is not approved yet."""
    return ""


@dataclass
class World:
    """The users, by name, each with a browser, and the rows of the pages, by kind."""

    people: dict[str, Any] = field(default_factory=dict)
    browsers: dict[str, Client] = field(default_factory=dict)
    rows: dict[str, Any] = field(default_factory=dict)

    def key(self, name: str) -> Any:
        return quote(self.rows[name].pk)

    def address(self, page: str, row: str = "") -> str:
        """
        Return the address of a page by its name, "app_list" of "mcp_bridge" with a space between.
        """
        name, _, label = page.partition(" ")
        if page == own_tokens.urlpatterns[0].name:
            return reverse(page)
        arguments = [label] if label else [self.key(row)] if row else []
        return reverse(f"admin:{name}", args=arguments)


def page_names() -> Iterator[str]:
    """Yield the names of all pages of the bridge: of the admin and, at last, of a user's tokens."""
    yield from (f"app_list {label}" for label in _OWN)
    for model_admin in admin.site._registry.values():
        if isinstance(model_admin, PagesAdmin):
            # Patterns without a name redirect from an old address of Django's to the page of a row.
            yield from (each.name for each in model_admin.get_urls() if each.name)
    yield from (str(each.name) for each in own_tokens.urlpatterns)


def state() -> dict[str, list[Any]]:
    """Return all rows on permissions and on past actions, by the name of their table."""
    flush()
    return {
        model._meta.model_name or "": list(model._base_manager.order_by("pk").values_list())
        for label in _APPS
        for model in apps.get_app_config(label).get_models(include_auto_created=True)
    }


def changed(before: dict[str, list[Any]]) -> set[str]:
    """Return the names of the tables that have changed."""
    now = state()
    # Each decision writes another generation.
    return {name for name in now if now[name] != before[name]} - {"generation"}


def make_world(settings: Any) -> World:
    """Make the site and its rows, and have all users sign in."""
    ToolSetting.objects.all().delete()
    serve_tools(settings, shout, look, fail, fresh)
    own = path("mcp/tokens/", include(own_tokens))
    settings.ROOT_URLCONF.urlpatterns.insert(0, own)
    options = {"BACKEND": f"{ManySource.__module__}.ManySource", "OPTIONS": {"many": 3}}
    settings.MCP_BRIDGE = {
        "STATE_MAX_AGE": 0,
        "AUDIT": {"ARGUMENTS": "full"},
        "SOURCES": {"modernrpc": {}, "api": options, "rpc": None},
    }
    world = World()
    for name in PEOPLE[:-1]:
        world.people[name] = _person(name)
        world.browsers[name] = Client()
        world.browsers[name].force_login(world.people[name])
    world.browsers["nobody"] = Client()
    sync_tool_settings(registry.discovered)
    _add_rows(world)
    return world


def _person(name: str) -> Any:
    users = get_user_model().objects
    if name == "root":
        return users.create_superuser(name)
    person = users.create_user(name, is_staff=name != "member")
    of_bridge = Permission.objects.filter(content_type__app_label__startswith="mcp_bridge")
    if name == "chief":
        person.user_permissions.set(of_bridge.exclude(codename="issue_for_others"))
    if name == "issuer":
        person.user_permissions.set(of_bridge.filter(codename="add_token"))
    if name == "viewer":
        person.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    return person


def _add_rows(world: World) -> None:
    rows, member = world.rows, world.people["member"]
    tools = {each.name: each for each in ToolSetting.objects.all()}
    rows |= {each: tools[each] for each in ("shout", "look", "fresh")}
    ToolSetting.objects.filter(name="shout").update(confirm=True)
    ToolSetting.objects.filter(name="fresh").update(fingerprint="another", guarded=True)
    rows["gone"] = ToolSetting.objects.create(name="was_here")
    assert MCPClient(user=member).call_tool("shout", {"word": "first"})["isError"]
    follower = MCPClient(user=member, capabilities={"extensions": {TASKS: {}}})
    assert follower.call_tool("shout", {"word": "second"})["resultType"] == "task"
    rows["task"] = McpTask.objects.get()
    rows["pending"], rows["second"] = PendingCall.objects.order_by("pk")
    flush()
    rows["record"] = ToolCallRecord.objects.earliest("pk")
    rows["server"] = RemoteServer.objects.create(
        name="Weather", slug="weather", url="https://127.0.0.1:9/mcp"
    )
    rows["scope"] = Scope.objects.create(name="read", description="Look")
    for name, person in world.people.items():
        rows[f"token of {name}"], _secret = Token.objects.issue(user=person, name="Laptop")
    for name in ("client", "idle client"):
        rows[name] = get_application_model().objects.create(
            name=name,
            client_type="public",
            authorization_grant_type="authorization-code",
            redirect_uris="https://claude.ai/callback",
        )
    get_access_token_model().objects.create(
        user=member,
        application=rows["client"],
        token="x",
        expires=timezone.now() + timedelta(hours=1),
    )
    # An application that a user has connected is not a row; its key has those of both.
    rows["connected"] = SimpleNamespace(pk=f"{member.pk}/{rows['client'].pk}")


def fingerprint_of(name: str) -> str:
    """Return the fingerprint of a tool's definition, or of the one that a candidate would have."""
    discovered = registry.discovered
    tool = discovered.tools.get(name) or registry.build(discovered.candidates[name])
    return fingerprint(canonical_definition(tool))
