from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, Group, Permission
from django.db import OperationalError
from django.http import HttpRequest
from django.test.utils import override_settings
from django.urls import path
from django.utils.translation import override
from modernrpc import RpcNamespace
from modernrpc.server import RpcServer

from mcp_bridge import Context, ToolError, mcp_tool
from mcp_bridge.access.policy import AccessPolicy, context_for, unmet
from mcp_bridge.features import Client
from mcp_bridge.protocol import LATEST, REVISIONS
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import addresses, route, serve
from mcp_bridge.tokens.models import Token
from mcp_bridge.views import AsyncMCPView
from tests.support.serving import giving, served

CALLS: list[str] = []


def tool_named(name: str, **options: Any) -> Any:
    @mcp_tool(**options)
    def tool() -> str:
        """Say the name."""
        CALLS.append(name)
        return name

    tool.__name__ = name
    return tool


def is_ada(request: HttpRequest) -> bool:
    return request.user.get_username() == "ada"


def has_header(request: HttpRequest) -> str | None:
    return request.META.get("HTTP_X_PASS")


def broken(request: HttpRequest) -> bool:
    raise KeyError("SECRET-MARKER")


def asks_the_database(request: HttpRequest) -> bool:
    return get_user_model().objects.filter(pk=request.user.pk, username="ada").exists()


def exits(request: HttpRequest) -> bool:
    raise StopIteration


ADD, DELETE = "auth.add_user", "auth.delete_user"
PREDICATES: dict[str, Any] = {
    "for_ada": is_ada,
    "broken": broken,
    "exits": exits,
    "from_database": asks_the_database,
    "either": [has_header, is_ada],
    "open": None,
}


def site_server() -> RpcServer:
    server = RpcServer()
    server.register_procedure(tool_named("public", public=True))
    server.register_procedure(tool_named("plain"))
    server.register_procedure(tool_named("adding", permissions=ADD))
    server.register_procedure(tool_named("both", permissions=[ADD, DELETE]))
    server.register_procedure(tool_named("nothing", permissions="auth.no_such_permission"))
    server.register_procedure(tool_named("adding_ada", permissions=ADD), auth=is_ada)
    server.register_procedure(tool_named("public_ada", public=True), auth=is_ada)
    for name, predicate in PREDICATES.items():
        server.register_procedure(tool_named(name), auth=predicate)
    return server


SERVER = site_server()


@pytest.fixture(autouse=True, scope="module")
def test_site() -> Iterator[None]:
    site = addresses(path("rpc", SERVER.view), path("async", AsyncMCPView.as_view(), name="async"))
    with override_settings(ROOT_URLCONF=site):
        yield


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


def permission(name: str) -> Permission:
    return Permission.objects.get(codename=name.partition(".")[2])


def make_user(kind: str) -> Any:
    if kind == "anonymous":
        return None
    users = get_user_model().objects
    if kind == "superuser":
        return users.create_superuser(kind)
    user = users.create_user(kind)
    if kind in ("adder", "both"):
        user.user_permissions.add(permission(ADD))
    if kind == "both":
        user.user_permissions.add(permission(DELETE))
    if kind == "by group":
        group = Group.objects.create(name="adders")
        group.permissions.add(permission(ADD))
        user.groups.add(group)
    return users.get(pk=user.pk)


ANYBODY, PEOPLE = {"public"}, {"public", "plain", "open"}
ADA = PEOPLE | {"for_ada", "public_ada", "from_database", "either"}
EXPECTED: dict[str, set[str]] = {
    "anonymous": ANYBODY,
    "plain": PEOPLE,
    "ada": ADA,
    "adder": PEOPLE | {"adding"},
    "by group": PEOPLE | {"adding"},
    "both": PEOPLE | {"adding", "both"},
    "superuser": PEOPLE | {"adding", "both", "nothing"},
}


@pytest.mark.parametrize("address", ["/mcp", "/async"])
@pytest.mark.parametrize("kind", EXPECTED)
def test_listed_tools_are_the_callable_tools(kind: str, address: str) -> None:
    client = CheckedClient(user=make_user(kind), path=address)
    assert {tool["name"] for tool in client.list_tools()} == EXPECTED[kind]
    shown = client.http.get("/mcp/tools/list").json()
    assert {tool["name"] for tool in shown["tools"]} == EXPECTED[kind]
    assert {name for name in SERVER.procedures if is_callable(client, name)} == EXPECTED[kind]
    assert set(CALLS) == EXPECTED[kind]


def is_callable(client: CheckedClient, name: str) -> bool:
    try:
        return client.call_tool(name)["content"] == [{"type": "text", "text": name}]
    except MCPError as refused:
        return refused.error["code"] != -32602


def answer(user: Any, revision: str, name: str) -> tuple[int, dict[str, str], bytes]:
    """Return all that a caller gets to see of one call, but for the name."""
    client = CheckedClient(user=user, revision=revision)
    with pytest.raises(MCPError):
        client.call_tool(name)
    response = client.response
    return (
        response.status_code,
        dict(response.headers),
        response.content.replace(name.encode(), b"NAME"),
    )


@pytest.mark.requirement("tools.access")
@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize("kind", EXPECTED)
def test_refusals_equal_those_of_unknown_names(kind: str, revision: str) -> None:
    user = make_user(kind)
    unknown: dict[int, Any] = {}
    for name in sorted({*SERVER.procedures, "system_listMethods"} - EXPECTED[kind]):
        length = len(name)
        unknown[length] = unknown.get(length) or answer(user, revision, "z" * length)
        assert answer(user, revision, name) == unknown[length]
    assert CALLS == []


def test_refusal_is_unknown_tool_with_http_200(revision: str) -> None:
    status, _, body = answer(make_user("plain"), revision, "adding")
    assert status == 200
    assert b'"code":-32602' in body
    assert b'"message":"Unknown tool: NAME"' in body


def test_arguments_of_a_refused_tool_are_not_checked() -> None:
    client = CheckedClient(user=make_user("plain"))
    with pytest.raises(MCPError, match="Unknown tool: adding"):
        client.call_tool("adding", {"no such": "argument"})


def forget_permission(user: Any, token: Token) -> None:
    user.user_permissions.clear()


def forget_account(user: Any, token: Token) -> None:
    get_user_model().objects.filter(pk=user.pk).update(is_active=False)


def forget_token(user: Any, token: Token) -> None:
    token.revoke()


@pytest.mark.parametrize(
    ("change", "status"), [(forget_permission, 200), (forget_account, 401), (forget_token, 401)]
)
def test_access_is_checked_again_at_the_call(change: Any, status: int) -> None:
    user = make_user("adder")
    token, secret = Token.objects.issue(user=user, name="test")
    client = CheckedClient(token=secret)
    assert "adding" in [tool["name"] for tool in client.list_tools()]
    change(user, token)
    with pytest.raises(MCPError):
        client.call_tool("adding")
    assert (client.response.status_code, CALLS) == (status, [])


def test_predicate_that_raises_is_logged_and_not_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = CheckedClient(user=make_user("plain"))
    client.list_tools()
    assert b"SECRET-MARKER" not in client.response.content
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert "SECRET-MARKER" in caplog.text


@pytest.mark.off_tasks
@pytest.mark.off_stdio
def test_one_of_several_predicates_is_enough() -> None:
    client = CheckedClient(user=make_user("plain"))
    assert not is_callable(client, "either")
    client.headers["X-Pass"] = "yes"
    assert is_callable(client, "either")


@pytest.mark.off_stdio
def test_procedure_predicate_overrides_server_and_namespace(
    settings: Any,
) -> None:
    server, namespace = RpcServer(auth=is_ada), RpcNamespace(auth=has_header)
    server.register_procedure(tool_named("inherited"))
    server.register_procedure(tool_named("opened"), auth=None)
    server.register_procedure(tool_named("emptied"), auth=[])
    namespace.register_procedure(tool_named("spaced"))
    server.register_namespace(namespace, "n")
    route(settings, path("rpc", server.view))
    client = CheckedClient(user=make_user("plain"))
    assert [tool["name"] for tool in client.list_tools()] == ["emptied", "opened"]
    client.headers["X-Pass"] = "yes"
    assert [tool["name"] for tool in client.list_tools()] == ["emptied", "n_spaced", "opened"]


@pytest.mark.requirement("tools.same-everywhere")
def test_access_is_not_cached_between_callers() -> None:
    for kind in ("anonymous", "superuser", "plain", "adder", "anonymous"):
        user = get_user_model().objects.filter(username=kind).first() or make_user(kind)
        listed = CheckedClient(user=user).list_tools()
        assert {tool["name"] for tool in listed} == EXPECTED[kind]


@pytest.mark.requirement("tools.same-everywhere")
def test_calls_do_not_change_the_list(settings: Any) -> None:
    def fails() -> None:
        """Fail."""
        raise ToolError("No.")

    serve(settings, giving(int, 1), fails)
    client = CheckedClient(user=make_user("plain"))
    legacy = CheckedClient(user=make_user("ada"), revision="2025-11-25")
    listed, old = client.list_tools(), legacy.list_tools()
    assert [tool["name"] for tool in listed] == ["fails", "give"]

    def unchanged() -> bool:
        return (client.list_tools(), legacy.list_tools()) == (listed, old)

    for each in (client, legacy):
        assert each.call_tool("give")["isError"] is False
        assert unchanged()
        assert each.call_tool("fails")["isError"] is True
        assert unchanged()
        with pytest.raises(MCPError, match="Unknown tool: nowhere"):
            each.call_tool("nowhere")
        assert unchanged()
    # Negotiates an older revision.
    info = {"name": "probe", "version": "1"}
    legacy.post("initialize", protocolVersion="2025-03-26", capabilities={}, clientInfo=info)
    assert unchanged()


class OfficeHours(AccessPolicy):
    """A policy that allows only public tools, regardless of permissions."""

    def allows(self, tool: Any, context: Any) -> bool:
        return tool.access.public and super().allows(tool, context)


class Unreachable(AccessPolicy):
    def allows(self, tool: Any, context: Any) -> bool:
        raise OperationalError("SECRET-MARKER")


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
def test_unreachable_database_is_503_not_a_refusal(method: str, settings: Any) -> None:
    settings.MCP_BRIDGE = {"ACCESS_POLICY": "tests.contract.test_access.Unreachable"}
    client = CheckedClient(user=make_user("plain"))
    with pytest.raises(MCPError, match="database") as raised:
        client.post(method, **({"name": "plain"} if method == "tools/call" else {}))
    assert (client.response.status_code, raised.value.error["code"]) == (503, -32603)
    assert b"SECRET-MARKER" not in client.response.content


def test_access_policy_applies_to_list_and_call(settings: Any) -> None:
    settings.MCP_BRIDGE = {"ACCESS_POLICY": "tests.contract.test_access.OfficeHours"}
    client = CheckedClient(user=make_user("superuser"))
    assert [tool["name"] for tool in client.list_tools()] == ["public"]
    assert [name for name in SERVER.procedures if is_callable(client, name)] == ["public"]


@pytest.mark.off_tasks
def test_caller_without_a_credential_is_anonymous(settings: Any) -> None:
    settings.REST_FRAMEWORK = {"UNAUTHENTICATED_USER": None}

    def kind(context: Context) -> str:
        assert isinstance(context.user, AnonymousUser)
        return type(context.request.user).__name__

    serve(settings, kind, public=True)
    assert CheckedClient().call_tool("kind")["structuredContent"] == {"result": "AnonymousUser"}


@pytest.mark.parametrize(
    ("allowed", "host"),
    [
        (["testserver", "a.example"], "testserver"),
        (["a.example", "testserver"], "testserver"),
        ([".a.example"], "a.example"),
        (["*", "b.example"], "b.example"),
        (["*"], "localhost"),
        ([], "localhost"),
    ],
)
def test_commands_use_an_allowed_host(allowed: list[str], host: str, settings: Any) -> None:
    settings.ALLOWED_HOSTS, settings.DEBUG = allowed, True
    request = context_for(AnonymousUser()).request
    assert (request.get_host(), request.method) == (host, "POST")
    assert request.build_absolute_uri("/a") == "/a"


def test_command_context_has_user_language_and_client(user: Any) -> None:
    client = Client(info={"name": "probe"})
    with override("de"):
        context = context_for(user, revision=REVISIONS["2025-06-18"], client=client)
    assert (context.user, context.language, context.client) == (user, "de", client)
    assert context.revision is REVISIONS["2025-06-18"]
    assert context_for(user).revision is LATEST
    with override(None):
        assert context_for(user).language == ""


def test_first_unmet_part_of_a_rule_is_named(
    user: Any, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.MCP_BRIDGE = {"AUTHORIZATION_SERVERS": []}
    serve(settings, giving(int, 1), permissions="auth.add_group")
    tool, group = served("give"), Group.objects.create(name="press")
    rule = replace(tool.access, groups=frozenset({group.pk}), scopes=("write",), predicate=broken)

    def part(caller: Any, **changed: Any) -> str | None:
        context = replace(context_for(caller), auth={"scope": "read"})
        return unmet(replace(tool, access=replace(rule, **changed)), context)

    assert part(AnonymousUser()) == part(None) == "authenticated"
    user.is_active = False
    assert part(user) == "active"
    user.is_active = True
    assert part(user) == "groups"
    assert part(user, groups=None) == "permissions"
    user = get_user_model().objects.create_superuser("root")
    assert part(user, groups=None) == "scopes"
    assert part(user, groups=None, scopes=()) == "predicate"
    (record,) = caplog.records
    assert record.getMessage() == "An access predicate raised an exception; access is denied"
    assert record.exc_info
    assert part(user, groups=None, scopes=(), predicate=lambda context: False) == "predicate"
    assert part(user, groups=None, scopes=(), predicate=None) is None
    assert part(None, public=True, predicate=None) is None
