"""The package changes nothing of the site: neither /rpc, nor classes, nor settings."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import Client
from django.urls import path
from modernrpc import RpcNamespace, RpcRequestContext
from modernrpc.exceptions import RPCException
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from tests.support.serving import names

pytestmark = pytest.mark.alone

Mark = Callable[[Any], Any]


def only_ada(request: HttpRequest) -> bool:
    return request.META.get("HTTP_X_NAME") == "ada"


def add(a: int, b: int = 1) -> int:
    """
    Add two numbers.

    :param a: the first
    :type a: int
    :return: the sum
    """
    return a + b


def refuse() -> None:
    raise RPCException(-32050, "The ledger is closed.", {"until": "Monday"})


def bug() -> None:
    raise RuntimeError("a bug")


def wrong() -> int:
    return len(3)  # type: ignore[arg-type]


def guarded() -> str:
    return "for Ada"


async def later(word: str, rpc: RpcRequestContext) -> list[str]:
    return [word, rpc.protocol.name or ""]


def copied(function: Any) -> Any:
    """Return another function of the same code, so that only one of them is marked."""
    copy = FunctionType(function.__code__, function.__globals__, argdefs=function.__defaults__)
    functools.update_wrapper(copy, function, updated=())
    del copy.__wrapped__  # type: ignore[attr-defined]
    return copy


def build(mark: Mark) -> RpcServer:
    """Return a server of many procedures, with or without marks."""
    server, namespace = RpcServer(), RpcNamespace()
    server.register_procedure(mark(copied(add)))
    mark(server.register_procedure(copied(refuse), name="fails.rpc"))
    server.register_procedure(mark(copied(bug)), name="fails.bug")
    server.register_procedure(mark(copied(wrong)), name="fails.type")
    server.register_procedure(mark(copied(guarded)), auth=only_ada)
    namespace.register_procedure(mark(copied(later)), context_target="rpc")
    server.register_namespace(namespace, "deep")
    return server


MARKS: list[Mark] = [mcp_tool, mcp_tool(read_only=True, permissions="auth.add_user", title="T")]
PLAIN = build(lambda function: function)


def rpc(method: str, *params: Any, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params), **more}


BODIES: list[Any] = [
    rpc("add", 1, 2),
    rpc("add", params={"a": 1}),
    rpc("add"),
    rpc("add", 1, 2, 3),
    rpc("add", params={"a": 1, "z": 2}),
    rpc("add", "x", 1),
    rpc("fails.rpc"),
    rpc("fails.bug"),
    rpc("fails.type"),
    rpc("guarded"),
    rpc("deep.later", "word"),
    rpc("nothing"),
    rpc("tools/list"),
    rpc("system.listMethods"),
    rpc("system.methodHelp", "add"),
    rpc("system.methodSignature", "add"),
    {"jsonrpc": "2.0", "method": "add", "params": [1]},
    [rpc("add", 1), rpc("add"), {"jsonrpc": "2.0", "method": "add"}],
    [],
]


def answers(server: RpcServer, settings: Any, **headers: str) -> list[Any]:
    route(settings, path("rpc", server.view), path("rpc-async", server.async_view))
    client = Client(headers=headers)
    found = []
    for address in ("/rpc", "/rpc-async"):
        for body in BODIES:
            response = client.post(address, json.dumps(body), content_type="application/json")
            found.append((response.status_code, dict(response.headers), response.content))
        found.append(client.get(address).status_code)
    return found


@pytest.mark.parametrize("headers", [{}, {"X-Name": "ada"}])
def test_rpc_answers_are_byte_identical_without_marks(
    headers: dict[str, str], settings: Any
) -> None:
    expected = answers(PLAIN, settings, **headers)
    for mark in MARKS:
        assert answers(build(mark), settings, **headers) == expected


def test_rpc_answers_the_same_after_the_tools_were_called(
    modern: CheckedClient, settings: Any
) -> None:
    server = build(mcp_tool)
    before = answers(server, settings)
    assert names() == ["add", "deep_later", "fails_bug", "fails_rpc", "fails_type", "guarded"]
    for tool in modern.list_tools():
        modern.call_tool(tool["name"], {"a": 1} if tool["name"] == "add" else {"word": "x"})
    assert answers(server, settings) == before


PROGRAM = """
from django.conf import settings
settings.configure(
    SECRET_KEY="x", ROOT_URLCONF="tests.support.site", ALLOWED_HOSTS=["testserver"],
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "modernrpc",
                    "rest_framework", "mcp_bridge", "mcp_bridge.tokens"],
)
import modernrpc.core, modernrpc.handler, modernrpc.jsonrpc.handler, modernrpc.server
import django.http, django.views, rest_framework.authentication, rest_framework.request

CLASSES = [
    modernrpc.server.RpcServer, modernrpc.server.RpcNamespace, modernrpc.core.ProcedureWrapper,
    modernrpc.core.RpcRequestContext, modernrpc.handler.RpcHandler,
    modernrpc.jsonrpc.handler.JsonRpcHandler, django.views.View, django.http.HttpRequest,
    rest_framework.request.Request, rest_framework.authentication.BaseAuthentication,
]

def state():
    given = {name: repr(getattr(settings, name)) for name in dir(settings) if name.isupper()}
    return given, [{name: id(value) for name, value in vars(each).items()} for each in CLASSES]

before = state()
import django
django.setup()
import tests.support.site
from mcp_bridge.testing import MCPClient
client = MCPClient()
assert [tool["name"] for tool in client.list_tools()] == ["ping_public"]
assert client.call_tool("ping_public")["structuredContent"] == {"pong": True}
after = state()
changed = {name for name in after[0] if before[0].get(name) != after[0][name]}
# Django fills in the settings of the databases itself, on first use.
assert changed <= {"DATABASES"}, changed
for kind, was, is_now in zip(CLASSES, before[1], after[1], strict=True):
    assert was == is_now, f"{kind} changed"
assert "mcp" not in " ".join(settings.MIDDLEWARE)
print("untouched")
"""


def test_classes_and_settings_are_unchanged() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert run.stdout == "untouched\n", run.stderr
