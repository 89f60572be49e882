"""System checks of marked functions at /rpc and of those that are not registered."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from django.contrib.auth.decorators import login_not_required
from django.core import checks
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import include, path
from modernrpc import RpcNamespace
from modernrpc.server import RpcServer

from mcp_bridge import Context, mcp_tool
from mcp_bridge.features import Tool
from mcp_bridge.sources.base import Source
from mcp_bridge.testing.serving import route, serve
from tests.checks.test_checks import found, ids
from tests.support.serving import giving, taking

hidden = RpcServer()
hidden.register_procedure(mcp_tool(permissions="auth.add_user")(giving(int, 1)))


def nobody(request: Any) -> bool:
    return False


def refuse(value: int) -> bool:
    """Refuse every call, as a precheck."""
    return False


def who(context: Context) -> str:
    """Say who calls."""
    return str(context)


def at_rpc(settings: Any, registration: Any = None, of_server: Any = None, **mark: Any) -> None:
    server = RpcServer(**(of_server or {}))
    server.register_procedure(mcp_tool(**mark)(taking(int)), **(registration or {}))
    route(settings, path("api/", include([path("rpc", server.view)])))


@pytest.mark.parametrize(
    "mark",
    [
        {"permissions": "auth.add_user"},
        {"scopes": "users"},
        {"confirm": True},
        {"precheck": refuse},
    ],
)
def test_w033_rpc_serves_a_restricted_tool(mark: dict[str, Any], settings: Any) -> None:
    at_rpc(settings, **mark)
    called = '{"jsonrpc": "2.0", "id": 1, "method": "take", "params": [1]}'
    answer = Client().post("/api/rpc", called, content_type="application/json")
    assert answer.json()["result"] == "1"
    (message,) = found(but=())
    assert (message.id, message.level) == ("mcp_bridge.W033", checks.WARNING)
    assert "'api/rpc'" in message.msg
    assert f"take (tests/support/serving.py:{taking(int).__code__.co_firstlineno})" in message.msg
    assert next(iter(mark)) in message.msg
    assert "auth=" in str(message.hint)
    assert '"OPTIONS": {"servers": [' in str(message.hint)


@pytest.mark.parametrize(
    ("registration", "of_server", "mark"),
    [
        ({}, {}, {"public": True}),
        ({}, {}, {}),
        ({"auth": nobody}, {}, {"permissions": "auth.add_user"}),
        ({}, {"auth": nobody}, {"permissions": "auth.add_user"}),
        ({}, {"auth": [nobody, nobody]}, {"confirm": True}),
    ],
)
def test_w033_is_skipped_for_public_or_authenticated_procedures(
    registration: Any, of_server: Any, mark: Any, settings: Any
) -> None:
    at_rpc(settings, registration, of_server, **mark)
    assert found(but=()) == []


def test_w033_reports_an_auth_overridden_with_none(settings: Any) -> None:
    at_rpc(settings, {"auth": None}, {"auth": nobody}, permissions="auth.add_user")
    assert ids(but=()) == ["W033"]


def test_w033_names_procedures_and_addresses_once(settings: Any) -> None:
    server = RpcServer()
    for name in ("a", "b"):
        server.register_procedure(mcp_tool(confirm=True)(taking(int)), name=name)
    route(settings, path("rpc", server.view), path("async", login_not_required(server.async_view)))
    (message,) = found(but=())
    assert "'rpc' and 'async'" in message.msg
    assert "a (tests" in message.msg
    assert "b (tests" in message.msg


def test_w033_is_skipped_for_servers_without_an_address(settings: Any) -> None:
    settings.MCP_BRIDGE = {"SOURCES": {"rpc": {"OPTIONS": {"servers": [f"{__name__}.hidden"]}}}}
    route(settings)
    assert found(but=()) == []
    # Another server has the same function at a separate address.
    route(settings, path("rpc", hidden.view))
    assert ids(but=()) == ["W033"]


def test_w035_callers_of_rpc_write_the_context(settings: Any) -> None:
    serve(settings, who)
    called = '{"jsonrpc": "2.0", "id": 1, "method": "who", "params": {"context": "root"}}'
    answer = Client().post("/rpc", called, content_type="application/json")
    assert answer.json()["result"] == "root"
    (message,) = found(but=())
    assert (message.id, message.level) == ("mcp_bridge.W035", checks.WARNING)
    assert "who (tests/checks/test_procedures.py:" in message.msg
    assert "context_target" in str(message.hint)


def who_if_known(context: Context | None = None) -> str:
    """Say who calls, if known."""
    return str(context)


def test_w035_is_skipped_for_an_optional_context(settings: Any) -> None:
    serve(settings, who_if_known)
    assert found(but=()) == []


class Marked(Source):
    """A custom source of functions that are not registered on a server."""

    def tools(self) -> list[Tool]:
        functions = [each for each in vars(sys.modules["home.trial"]).values() if callable(each)]
        return [
            Tool(
                name=each.__name__,
                description="",
                input_schema={"type": "object"},
                check=dict,
                invoke=str,
                encode=str,  # type: ignore[arg-type]
                code=each.__code__,
            )
            for each in functions
        ]


@pytest.fixture
def trial(settings: Any) -> Iterator[Callable[..., ModuleType]]:
    """Make a module of these functions, as if it had been imported."""
    serve(settings, giving(int, 1))

    def make(name: str = "home.trial", **values: Any) -> ModuleType:
        module = sys.modules[name] = ModuleType(name)
        for each in values.values():
            if getattr(each, "__module__", "").startswith("tests."):
                each.__module__ = name
        vars(module).update(values)
        return module

    yield make
    for name in [each for each in sys.modules if each.startswith("home.")]:
        del sys.modules[name]


def forgotten() -> Callable[..., Any]:
    function = mcp_tool(taking(int))
    function.__name__ = function.__qualname__ = "forgotten"
    return function


def test_w034_mark_on_an_unregistered_function(trial: Any) -> None:
    trial(forgotten=forgotten())
    (message,) = found(but=())
    assert (message.id, message.level) == ("mcp_bridge.W034", checks.WARNING)
    assert "forgotten (tests/support/serving.py:" in message.msg
    assert "@server.register_procedure" in str(message.hint)


@pytest.mark.usefixtures("user")
def test_mcp_call_names_the_unregistered_function(trial: Any) -> None:
    trial(forgotten=forgotten())
    with pytest.raises(
        CommandError, match=r"Unknown tool: forgotten\. .*serving\.py:\d+.* not reg"
    ):
        call_command("mcp_call", "forgotten", "--user", "ada")


def test_w034_is_skipped_for_registered_functions(trial: Any) -> None:
    function = forgotten()
    server = RpcServer()
    server.register_procedure(function)
    trial(forgotten=function)
    trial("home.elsewhere", server=server)
    assert found(but=()) == []
    namespace = RpcNamespace()
    namespace.register_procedure(function)
    trial("home.elsewhere", namespace=namespace)
    assert found(but=()) == []
    trial("home.elsewhere")
    assert ids(but=()) == ["W034"]


def test_w034_is_skipped_for_aliases_and_wrappers(trial: Any, settings: Any) -> None:
    function = forgotten()

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    server = RpcServer()
    server.register_procedure(function)
    route(settings, path("rpc", server.view))
    trial(forgotten=function, wrapper=wrapper)
    trial("home.again", forgotten=function, alias=function)
    assert found(but=()) == []
    # The wrapper is registered, while the module has the function.
    server = RpcServer()
    server.register_procedure(wrapper)
    route(settings, path("rpc", server.view))
    assert found(but=()) == []


def test_w034_is_skipped_for_tests_and_custom_sources(trial: Any, settings: Any) -> None:
    trial("home.tests.test_trial", forgotten=forgotten())
    assert found(but=()) == []
    trial(forgotten=forgotten())
    settings.MCP_BRIDGE = {"SOURCES": {"own": {"BACKEND": f"{__name__}.Marked"}}}
    assert "W034" not in ids(but=())
