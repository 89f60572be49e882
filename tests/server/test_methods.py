"""Server modules bring methods, which may send notifications before they answer."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser

from mcp_bridge.features import Context
from mcp_bridge.protocol import REVISIONS, MethodNotFoundError, Request
from mcp_bridge.protocol.jsonrpc import JSONObject
from mcp_bridge.server.methods import Endpoint, Method, Send
from mcp_bridge.server.server import MCPServer

PROGRESS: JSONObject = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}


def ping(endpoint: Endpoint, request: Request, context: Context, send: Send) -> JSONObject:
    send(PROGRESS)
    return {"tools": len(endpoint.snapshot)}


async def aping(endpoint: Endpoint, request: Request, context: Context, send: Send) -> JSONObject:
    return {**ping(endpoint, request, context, send), "asynchronous": True}


class Notifying(MCPServer):
    """A server with a method of its own."""

    methods = {**MCPServer.methods, "ping": Method(ping)}
    server_capabilities = {**MCPServer.server_capabilities, "logging": {}}


class AsyncNotifying(Notifying):
    methods = {**MCPServer.methods, "ping": Method(ping, aping)}


def asked(method: str) -> tuple[Request, Context]:
    revision = REVISIONS["2025-11-25"]
    params = {"protocolVersion": "2025-11-25"}
    message = Request(id=1, method=method, params=params, revision=revision)
    return message, Context(user=AnonymousUser(), revision=revision)


def test_a_method_may_send_before_it_answers() -> None:
    sent: list[Any] = []
    server = Notifying()
    assert server.handle(*asked("ping"), sent.append) == {"tools": len(server.snapshot)}
    assert async_to_sync(server.ahandle)(*asked("ping"), sent.append) == server.handle(
        *asked("ping")
    )
    assert sent == [PROGRESS, PROGRESS]


def test_a_method_with_something_to_await_is_awaited() -> None:
    sent: list[Any] = []
    answer: Any = async_to_sync(AsyncNotifying().ahandle)(*asked("ping"), sent.append)
    assert (answer["asynchronous"], sent) == (True, [PROGRESS])


def test_capabilities_are_those_of_the_methods_that_are_brought() -> None:
    found: Any = Notifying().handle(*asked("initialize"))
    assert found["capabilities"] == {"tools": {}, "logging": {}}


def test_a_method_that_nobody_brings_is_not_found() -> None:
    with pytest.raises(MethodNotFoundError):
        MCPServer().handle(*asked("server/discover"))
