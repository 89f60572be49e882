from __future__ import annotations

import functools
import sys
import warnings
from types import ModuleType
from typing import Annotated, Any

import pytest
from django.conf.urls.i18n import i18n_patterns
from django.core import checks
from django.urls import include, path, re_path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST
from modernrpc import Protocol, RpcNamespace
from modernrpc.server import RpcServer
from pydantic import Field

from mcp_bridge import mcp_tool
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route, serve
from tests.schemas import examples as ex
from tests.support import site
from tests.support.serving import giving, messages, names, served, taking


def server_of(*functions: Any, **options: Any) -> RpcServer:
    server = RpcServer(**options)
    for function in functions:
        server.register_procedure(function)
    return server


@mcp_tool
def one() -> int:
    """One."""
    return 1


@mcp_tool
def two() -> int:
    """Two."""
    return 2


first, second, twin = server_of(one), server_of(two), server_of(one)
no_server = object()


def wrapped(view: Any) -> Any:
    """Return a decorator as people write them."""

    @functools.wraps(view)
    def inner(request: Any, *args: Any, **kwargs: Any) -> Any:
        return view(request, *args, **kwargs)

    return inner


@pytest.mark.parametrize(
    "patterns",
    [
        [path("rpc", first.view)],
        [re_path("^rpc/?$", first.view, name="rpc")],
        [path("rpc", first.async_view)],
        [path("rpc", first.view), path("rpc-async", first.async_view)],
        [path("a/", include([path("b/", include([path("rpc", first.view)]))]))],
        [path("a/", include(([path("rpc", first.view)], "app"), namespace="space"))],
        i18n_patterns(path("rpc", first.view)),
        [path("rpc", never_cache(require_POST(first.view)))],
        [path("rpc", wrapped(wrapped(first.view)))],
        [path("<slug:tenant>/rpc", first.view, {"extra": 1})],
    ],
)
def test_server_is_found_in_the_urlconf(
    patterns: list[Any], modern: CheckedClient, settings: Any
) -> None:
    route(settings, *patterns)
    assert names() == ["one"]
    assert modern.call_tool("one")["structuredContent"] == {"result": 1}


def test_every_server_of_the_urlconf_is_found(modern: CheckedClient, settings: Any) -> None:
    route(settings, path("one", first.view), path("two", second.async_view))
    assert [tool["name"] for tool in modern.list_tools()] == ["one", "two"]
    assert modern.call_tool("two")["structuredContent"] == {"result": 2}


def test_site_without_a_server_has_no_tools(modern: CheckedClient, settings: Any) -> None:
    route(settings)
    assert modern.list_tools() == []
    assert modern.post("tools/list")["tools"] == []


def source(**options: Any) -> dict[str, Any]:
    backend = "mcp_bridge.sources.modernrpc.ModernRPCSource"
    return {"BACKEND": backend, "OPTIONS": options}


def test_named_servers_replace_those_of_the_urlconf(modern: CheckedClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {
        "SOURCES": {"rpc": source(servers=["tests.sources.test_sources.second"])}
    }
    route(settings, path("one", first.view))
    assert names() == ["two"]
    assert modern.call_tool("two")["structuredContent"] == {"result": 2}


def test_prefixes_keep_servers_apart(settings: Any) -> None:
    settings.MCP_BRIDGE = {
        "SOURCES": {
            "a": source(servers=["tests.sources.test_sources.first"], prefix="a_"),
            "b": source(servers=["tests.sources.test_sources.first"], prefix="b_"),
            "rpc": None,
        }
    }
    assert names() == ["a_one", "b_one"]


def test_prefix_applies_to_explicit_names(settings: Any) -> None:
    settings.MCP_BRIDGE = {"SOURCES": {"rpc": source(prefix="a_")}}
    serve(settings, giving(int, 1), name="by_hand")
    assert names() == ["a_by_hand"]


def test_shared_namespace_is_offered_once(settings: Any) -> None:
    namespace = RpcNamespace()
    namespace.register_procedure(one)
    servers = RpcServer(), RpcServer()
    for server in servers:
        server.register_namespace(namespace, "shared")
    route(settings, path("a", servers[0].view), path("b", servers[1].async_view))
    assert names() == ["shared_one"]


def test_one_function_can_be_several_tools(settings: Any) -> None:
    server = RpcServer()
    for name in ("a", "b.c"):
        server.register_procedure(one, name=name)
    route(settings, path("rpc", server.view))
    assert names() == ["a", "b_c"]


@pytest.mark.parametrize(
    ("style", "expected"),
    [("underscore", ["user_profiles_get"]), ("dotted", ["user_profiles.get"])],
)
def test_name_is_the_procedures_in_the_configured_style(
    style: str, expected: list[str], modern: CheckedClient, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"TOOL_NAME_STYLE": style}
    server = RpcServer()
    server.register_procedure(one, name="user_profiles.get")
    route(settings, path("rpc", server.view))
    assert names() == expected
    assert modern.call_tool(expected[0])["structuredContent"] == {"result": 1}


def test_unnamed_namespace_adds_no_prefix(settings: Any) -> None:
    server, namespace = RpcServer(), RpcNamespace()
    namespace.register_procedure(one)
    server.register_namespace(namespace)
    route(settings, path("rpc", server.view))
    assert names() == ["one"]


def unmarked() -> int:
    return 1


with warnings.catch_warnings():
    warnings.simplefilter("ignore")

    @mcp_tool
    def warned() -> int:
        """Deprecated by its attribute, as warnings.deprecated sets it."""
        return 1

    warned.__deprecated__ = "use one"  # type: ignore[attr-defined]


NEVER: list[tuple[Any, dict[str, Any]]] = [
    (unmarked, {}),
    (mcp_tool(exposed=False)(lambda: 1), {"name": "never"}),
    (mcp_tool(deprecated=True)(lambda: 1), {"name": "never"}),
    (warned, {}),
    (one, {"protocol": Protocol.XML_RPC}),
    (one, {"name": "system.one"}),
]


@pytest.mark.parametrize(("function", "registration"), NEVER)
def test_some_procedures_are_never_tools(
    function: Any, registration: dict[str, Any], modern: CheckedClient, settings: Any
) -> None:
    server = RpcServer()
    server.register_procedure(function, **registration)
    route(settings, path("rpc", server.view))
    assert names() == []
    for name in (*server.procedures, *(each.replace(".", "_") for each in server.procedures)):
        with pytest.raises(MCPError, match=r"Unknown tool: .* \(-32602\)"):
            modern.call_tool(name)


@pytest.mark.parametrize(
    "name",
    ["system_listMethods", "system.listMethods", "__class__", "unmarked", "xml_only", "outdated"]
    + [
        "unexposed",
        "ADD",
        "add ",
        " add",
        "add\x00",
        "add.",
        "shop.orders.find",
        "tests.support.site.add",
    ],
)
def test_tool_name_must_match_exactly(name: str, legacy: CheckedClient) -> None:
    site.CALLS.clear()
    with pytest.raises(MCPError, match="Unknown tool"):
        legacy.call_tool(name, {"a": 1})
    assert site.CALLS == []


def test_server_without_json_has_no_tools(settings: Any) -> None:
    server = server_of(one, supported_protocol=Protocol.XML_RPC)
    route(settings, path("rpc", server.view))
    assert names() == []


@mcp_tool
def star(*values: int) -> None:
    """Take any positional values."""


BROKEN: list[tuple[Any, dict[str, Any]]] = [
    (star, {}),
    (mcp_tool(taking(ex.Hostile)), {}),
    (mcp_tool(giving(ex.Hostile, 1)), {}),
    (mcp_tool(taking(Annotated[str, Field(pattern="(")])), {}),
    (mcp_tool(taking(Annotated[str, Field(pattern="^(?!a)")])), {}),
    (mcp_tool(giving(Annotated[str, Field(pattern="(")], "")), {}),
    (mcp_tool(taking(ex.Unfinished)), {}),
    (mcp_tool(input_schema={"type": "objekt"})(taking(int)), {}),
    (mcp_tool(meta={"a": object()})(taking(int)), {}),
    (mcp_tool(functools.partial(print, 1)), {"name": "partial"}),
    (mcp_tool(taking(int)), {"context_target": "nothing"}),
    (mcp_tool(name="a.b")(taking(int)), {}),
    (mcp_tool(taking(int)), {"name": "ä"}),
]


@pytest.mark.parametrize(("function", "registration"), BROKEN, ids=range(len(BROKEN)))
def test_broken_procedure_does_not_affect_others(
    function: Any, registration: dict[str, Any], modern: CheckedClient, settings: Any
) -> None:
    server = server_of(one)
    server.register_procedure(function, **registration)
    route(settings, path("rpc", server.view))
    assert "one" in [tool["name"] for tool in modern.list_tools()]
    assert modern.call_tool("one")["structuredContent"] == {"result": 1}
    reported = [*messages("mcp_bridge.E005"), *messages("mcp_bridge.E006")]
    reported += messages("mcp_bridge.W001")
    assert reported
    assert all("tests" in message or "functools" in message for message in reported)


def test_tools_with_the_same_name_are_not_served(modern: CheckedClient, settings: Any) -> None:
    server = server_of(one)
    server.register_procedure(two, name="a.b")
    server.register_procedure(one, name="a_b")
    route(settings, path("rpc", server.view))
    assert names() == ["one"]
    with pytest.raises(MCPError, match="Unknown tool: a_b"):
        modern.call_tool("a_b")


def test_procedure_receives_the_real_request_and_server(modern: CheckedClient) -> None:
    result = modern.call_tool("for_ada", {"word": "given"})
    assert result["structuredContent"] == {"result": "given: ada's own"}


def test_names_of_modules_and_files_are_not_listed(modern: CheckedClient) -> None:
    modern.list_tools()
    listed = modern.response.content.decode()
    assert not [word for word in ("tests", "site.py", "mcp_bridge.sources") if word in listed]


def test_tool_can_require_a_client_capability(user: Any) -> None:
    client = CheckedClient(user=user, capabilities={"sampling": {}})
    assert client.call_tool("needs_sampling")["structuredContent"] == {"result": "sampled"}
    with pytest.raises(MCPError, match="-32021"):
        CheckedClient(user=user).call_tool("needs_sampling")


def test_imported_tool_names_its_file(settings: Any) -> None:
    scope: dict[str, Any] = {}
    exec(compile("def far() -> int:\n    'Far.'\n    return 1", "/elsewhere/far.py", "exec"), scope)
    serve(settings, scope["far"])
    assert served("far").source == "far.py:1"


def test_tools_have_a_source_location(settings: Any) -> None:
    route(settings, path("rpc", first.view))
    assert served("one").source == f"tests/sources/test_sources.py:{one.__code__.co_firstlineno}"


# The default sources, and those of SOURCES.

FUNCTIONS = "mcp_bridge.sources.functions.FunctionSource"
OWN = {"BACKEND": FUNCTIONS, "OPTIONS": {"modules": [f"{__name__}_tools"]}}


@pytest.fixture
def tools_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with the tool ``three``."""
    module = ModuleType(f"{__name__}_tools")
    code = "from mcp_bridge import mcp_tool\n@mcp_tool\ndef three() -> int:\n    'Three.'"
    exec(code, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        ({}, ["one"]),
        ({"own": OWN}, ["one", "three"]),
        ({"own": {**OWN, "OPTIONS": {**OWN["OPTIONS"], "prefix": "a_"}}}, ["a_three", "one"]),
        # OPTIONS without BACKEND keep the default source's BACKEND.
        ({"functions": {"OPTIONS": OWN["OPTIONS"]}}, ["one", "three"]),
        ({"functions": OWN, "rpc": {"OPTIONS": {"prefix": "b_"}}}, ["b_one", "three"]),
        ({"own": OWN, "rpc": None}, ["three"]),
        ({"functions": None}, ["one"]),
        ({"own": OWN, "functions": None, "rpc": None}, ["three"]),
        ({"functions": None, "rpc": None}, []),
        # Two sources read the same module.
        ({"own": OWN, "functions": OWN}, ["one", "three"]),
        ({"again": {"OPTIONS": {"servers": [f"{__name__}.first"]}}}, ["one"]),
        ({"named": {"OPTIONS": {"servers": [f"{__name__}.second"]}}}, ["one", "two"]),
    ],
)
def test_configured_sources_extend_the_defaults(
    sources: Any, found: list[str], settings: Any, tools_module: None
) -> None:
    settings.MCP_BRIDGE = {"SOURCES": sources}
    route(settings, path("one", first.view))
    assert names() == found
    assert [each for each in checks.run_checks() if each.level >= checks.ERROR] == []
