"""How often the database and the site's backends are queried for a caller's permissions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import BaseBackend, ModelBackend
from django.contrib.auth.models import AnonymousUser, Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import path
from django.utils.functional import SimpleLazyObject
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.access.permissions import permissions_of
from mcp_bridge.access.policy import AccessPolicy, context_for, lacking
from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.serving import route
from mcp_bridge.tokens.models import Token

ASKED: list[str] = []
TABLES = ("mcp_bridge_tokens_token", "auth_permission", "auth_user_groups", "auth_group")


def tool_named(name: str, **options: Any) -> Any:
    @mcp_tool(read_only=True, **options)
    def tool() -> str:
        """Say the name."""
        return name

    tool.__name__ = name
    return tool


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    """Serve fifty tools, of which each pair needs one permission, and one that needs none."""
    ASKED.clear()
    settings.MCP_BRIDGE = {"AUDIT": None, "STATE_MAX_AGE": 60}
    server = RpcServer(register_system_procedures=False)
    server.register_procedure(tool_named("free"))
    for each in range(50):
        tool = tool_named(f"tool_{each:02}", permissions=f"auth.p{each // 2:02}")
        server.register_procedure(tool)
    route(settings, path("rpc", server.view))
    kind = ContentType.objects.get_for_model(Permission)
    Permission.objects.bulk_create(
        Permission(codename=f"p{each:02}", name="P", content_type=kind) for each in range(25)
    )


def give(user: Any, *names: str, group: str = "") -> Any:
    found = Permission.objects.filter(codename__in=names)
    if group:
        made = Group.objects.create(name=group)
        made.permissions.set(found)
        user.groups.add(made)
    else:
        user.user_permissions.set(found)
    return user


@pytest.fixture
def client(user: Any) -> MCPClient:
    give(user, "p00", "p01")
    give(user, "p01", "p02", group="some")
    client = MCPClient(token=Token.objects.issue(user=user, name="Laptop")[1])
    # Queried once: the use of the token, which is noted once a minute.
    names(client)
    return client


def names(client: MCPClient) -> list[str]:
    return [tool["name"] for tool in client.list_tools()]


def tables(action: Callable[[], object]) -> list[str]:
    """Return the tables of the rights and the credential that each query reads first."""
    with CaptureQueriesContext(connection) as queries:
        action()
    found = [re.search(r' FROM "(\w+)"', query["sql"]) for query in queries]
    return [each[1] for each in found if each and each[1] in TABLES]


def test_call_queries_the_token_and_its_user_once(client: MCPClient) -> None:
    assert tables(lambda: client.call_tool("free")) == ["mcp_bridge_tokens_token"]


@pytest.mark.parametrize("action", ["list", "call"])
def test_permissions_of_all_tools_are_two_queries(client: MCPClient, action: str) -> None:
    def act() -> None:
        if action == "call":
            client.call_tool("tool_00")
        else:
            assert names(client) == ["free", *(f"tool_{each:02}" for each in range(6))]

    assert tables(act) == ["mcp_bridge_tokens_token", "auth_permission", "auth_permission"]


def test_list_without_permissions_queries_none(client: MCPClient, settings: Any) -> None:
    server = RpcServer(register_system_procedures=False)
    server.register_procedure(tool_named("free"))
    route(settings, path("rpc", server.view))
    names(client)
    assert tables(lambda: names(client)) == ["mcp_bridge_tokens_token"]


def test_groups_of_a_caller_are_one_query(client: MCPClient, user: Any) -> None:
    group = Group.objects.get()
    for each in ("free", "tool_00", "tool_10"):
        setting, _ = ToolSetting.objects.get_or_create(name=each)
        setting.restricted = True
        setting.save()
        setting.groups.add(group)
    assert names(client)[:2] == ["free", "tool_00"]
    with CaptureQueriesContext(connection) as queries:
        names(client)
    asked = [each["sql"] for each in queries if '"auth_user_groups"' in each["sql"]]
    # The groups, and their permissions.
    assert len(asked) == 2
    user.groups.clear()
    assert names(client) == ["tool_01", "tool_02", "tool_03"]


@pytest.mark.parametrize("kind", ["superuser", "inactive", "nobody"])
def test_superusers_and_anonymous_users_need_no_query(kind: str) -> None:
    make = get_user_model().objects
    user: Any = AnonymousUser() if kind == "nobody" else make.create_user(kind)
    if kind != "nobody":
        give(user, "p00")
        user.is_superuser, user.is_active = kind == "superuser", kind == "superuser"
    with CaptureQueriesContext(connection) as queries:
        assert list(lacking(user, ["auth.p00", "no.such"])) == (
            [] if kind == "superuser" else ["auth.p00", "no.such"]
        )
    assert len(queries) == 0


def test_revoked_permission_is_gone_at_the_next_call(client: MCPClient, user: Any) -> None:
    assert client.call_tool("tool_00")["structuredContent"] == {"result": "tool_00"}
    user.user_permissions.clear()
    with pytest.raises(MCPError, match="Unknown tool: tool_00"):
        client.call_tool("tool_00")
    Group.objects.get().permissions.clear()
    assert names(client) == ["free"]


def test_tool_reading_permissions_makes_no_further_query(user: Any) -> None:
    give(user, "p00", "p01")
    give(user, "p02", group="some")
    user = get_user_model().objects.get(pk=user.pk)
    assert list(lacking(user, ["auth.p00", "auth.p02"])) == []
    with CaptureQueriesContext(connection) as queries:
        assert user.get_all_permissions() == {"auth.p00", "auth.p01", "auth.p02"}
        assert user.get_group_permissions() == {"auth.p02"}
        assert user.get_user_permissions() == {"auth.p00", "auth.p01"}
    assert len(queries) == 0


def test_user_of_a_session_is_looked_up_as_well(user: Any) -> None:
    give(user, "p00")
    lazy = SimpleLazyObject(lambda: get_user_model().objects.get(pk=user.pk))
    assert list(lacking(lazy, ["auth.p00", "auth.p01"])) == ["auth.p01"]


def test_permissions_already_read_are_reused(user: Any) -> None:
    give(user, "p00")
    give(user, "p02", group="some")
    assert user.get_group_permissions() == {"auth.p02"}
    Group.objects.get().permissions.clear()
    assert list(lacking(user, ["auth.p00", "auth.p02", "auth.p03"])) == ["auth.p03"]


class Counting(ModelBackend):
    """A site's own rule, which is applied."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        ASKED.append(perm)
        return perm in ("auth.p03", "auth.p07")


class OfItsOwn(ModelBackend):
    """Permissions from elsewhere."""

    def get_user_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        return {"auth.p05"}


class OfAnotherQuery(ModelBackend):
    def _get_group_permissions(self, user_obj: Any) -> Any:
        return Permission.objects.filter(codename="p06")


class Refusing(BaseBackend):
    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        if perm == "auth.p00":
            raise PermissionDenied
        return False


class LogsIn(ModelBackend):
    """A backend without an opinion on permissions."""

    def authenticate(self, request: Any, **credentials: Any) -> None:
        return None


class WithoutPermissions:
    def get_user(self, key: Any) -> None:
        return None


class Empty(BaseBackend):
    pass


BACKENDS = [
    [ModelBackend],
    [LogsIn],
    [Empty],
    [WithoutPermissions],
    [WithoutPermissions, Empty, LogsIn],
    [Counting],
    [OfItsOwn],
    [OfAnotherQuery],
    [ModelBackend, Counting],
    [Refusing, ModelBackend],
    [OfItsOwn, ModelBackend],
]


@pytest.mark.parametrize(
    "backends", BACKENDS, ids=lambda kinds: "+".join(k.__name__ for k in kinds)
)
@pytest.mark.parametrize("kind", ["plain", "by group", "superuser", "inactive"])
def test_listing_agrees_with_has_perm(
    backends: list[type], kind: str, user: Any, settings: Any
) -> None:
    settings.AUTHENTICATION_BACKENDS = [f"{each.__module__}.{each.__name__}" for each in backends]
    give(user, "p00", "p01", group="some" if kind == "by group" else "")
    user.is_superuser, user.is_active = kind == "superuser", kind != "inactive"
    user.save()
    asked = get_user_model().objects.get(pk=user.pk)
    expected = [f"p{each:02}" for each in range(25) if asked.has_perm(f"auth.p{each:02}")]
    fresh = get_user_model().objects.get(pk=user.pk)
    granted = permissions_of(fresh)
    assert [
        f"p{each:02}" for each in range(25) if granted.issuperset([f"auth.p{each:02}"])
    ] == expected
    if kind != "inactive":
        client = MCPClient(token=Token.objects.issue(user=user, name="Laptop")[1])
        listed = {int(name[-2:]) // 2 for name in names(client) if name != "free"}
        assert [f"p{each:02}" for each in sorted(listed)] == expected


def test_site_backend_is_asked_once_for_each_permission(client: MCPClient, settings: Any) -> None:
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.Counting"]
    assert names(client) == ["free", "tool_06", "tool_07", "tool_14", "tool_15"]
    assert sorted(ASKED) == [f"auth.p{each:02}" for each in range(25)]


def test_custom_has_perm_of_a_user_is_applied(user: Any) -> None:
    give(user, "p00")
    user.has_perm = lambda name: name == "auth.p09"
    assert list(lacking(user, ["auth.p00", "auth.p09"])) == ["auth.p00"]


def test_unsaved_user_raises_as_in_django() -> None:
    with pytest.raises(ValueError, match="needs to have a value"):
        list(lacking(get_user_model()(username="new"), ["auth.p00"]))


class Stranger:
    """A user of a site's own class, without further members."""

    is_authenticated = True


class Robot(Stranger):
    is_active = True


class Member(Robot):
    """A user whose groups are not a relation of Django."""

    @property
    def groups(self) -> Any:
        return Group.objects.filter(name="robots")


@pytest.mark.parametrize(("kind", "listed"), [(Robot, []), (Member, ["free"])])
def test_user_of_another_class_defines_its_groups(kind: type[Robot], listed: list[str]) -> None:
    setting, _ = ToolSetting.objects.get_or_create(name="free")
    setting.restricted = True
    setting.save()
    setting.groups.add(Group.objects.create(name="robots"))
    assert names(MCPClient(user=kind())) == listed


def test_user_without_known_members_has_no_permissions() -> None:
    client = MCPClient(user=Robot())
    assert [tool["name"] for tool in client.list_tools()] == ["free"]
    with pytest.raises(MCPError, match="Unknown tool: tool_00"):
        client.call_tool("tool_00", {})
    # Nor does such a user say whether the site still admits them.
    with pytest.raises(MCPError, match="not valid"):
        MCPClient(user=Stranger()).list_tools()
    assert not any(map(AccessPolicy().allows, registry.snapshot, [context_for(Stranger())] * 50))


def test_permissions_that_are_known_take_no_query(user: Any) -> None:
    give(user, "p01")
    give(user, "p02", group="Editors")
    known = user.get_all_permissions()
    with CaptureQueriesContext(connection) as queries:
        assert permissions_of(user) == known == {"auth.p01", "auth.p02"}
    assert len(queries) == 0
    # A site may have set only these, such as for a user who acts as another one.
    user._perm_cache = {"auth.p03"}
    assert permissions_of(user) == {"auth.p03"}
