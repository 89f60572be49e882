"""Methods of server modules, which may switch between threads and event loops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser

from mcp_bridge.concurrency.places import in_thread, on_loop
from mcp_bridge.features import Context
from mcp_bridge.protocol import REVISIONS, Request
from mcp_bridge.protocol.errors import MethodNotFoundError
from mcp_bridge.protocol.jsonrpc import JSONObject
from mcp_bridge.server.methods import Endpoint
from mcp_bridge.server.server import MCPServer
from tests.support.calling import handled, handled_on_loop


async def ping(endpoint: Endpoint, request: Request, context: Context) -> JSONObject:
    return {"tools": len(endpoint.snapshot)}


async def wait(endpoint: Endpoint, request: Request, context: Context) -> JSONObject:
    await on_loop()
    await asyncio.sleep(0)
    await in_thread()
    return {"users": get_user_model().objects.count()}


class Extended(MCPServer):
    """A server with an additional method."""

    methods = {**MCPServer.methods, "ping": ping}
    server_capabilities = {**MCPServer.server_capabilities, "logging": {}}


class Waiting(MCPServer):
    methods = {**MCPServer.methods, "ping": wait}


def asked(method: str) -> tuple[Request, Context]:
    revision = REVISIONS["2025-11-25"]
    params = {"protocolVersion": "2025-11-25"}
    message = Request(id=1, method=method, params=params, revision=revision)
    return message, Context(user=AnonymousUser(), revision=revision)


def test_server_may_have_more_methods() -> None:
    server = Extended()
    expected = {"tools": len(server.snapshot)}
    assert handled(server, *asked("ping")) == expected
    assert async_to_sync(handled_on_loop)(server, *asked("ping")) == expected


def test_request_is_answered_in_a_thread_with_a_loop() -> None:
    async def stay(*known: Any) -> JSONObject:
        await in_thread()
        return {"stayed": True}

    server = type("Staying", (MCPServer,), {"methods": {"ping": stay}})()

    async def main() -> Any:
        return handled(server, *asked("ping"))

    assert asyncio.run(main()) == {"stayed": True}


@pytest.mark.django_db
def test_method_may_await_and_query_the_database() -> None:
    assert handled(Waiting(), *asked("ping")) == {"users": 0}
    assert async_to_sync(handled_on_loop)(Waiting(), *asked("ping")) == {"users": 0}


def test_capabilities_are_those_of_the_added_methods() -> None:
    found: Any = handled(Extended(), *asked("initialize"))
    assert found["capabilities"] == {"tools": {}, "logging": {}}


def test_unknown_method_is_not_found() -> None:
    with pytest.raises(MethodNotFoundError):
        handled(MCPServer(), *asked("server/discover"))


@pytest.mark.parametrize("version", REVISIONS)
def test_each_era_has_its_own_methods(version: str) -> None:
    revision = REVISIONS[version]
    own, other = {"server/discover"}, {"initialize", "ping"}
    if not revision.modern:
        own, other = other, own

    def ask(method: str) -> object:
        params = {"protocolVersion": version}
        message = Request(id=1, method=method, params=params, revision=revision)
        return handled(MCPServer(), message, Context(user=AnonymousUser(), revision=revision))

    for method in {"tools/list", *own}:
        assert ask(method) is not None
    for method in {"tools", "resources/list", *other}:
        with pytest.raises(MethodNotFoundError):
            ask(method)


class Counting(MCPServer):
    methods = {**MCPServer.methods, "newsroom/count": wait}


@pytest.mark.django_db
@pytest.mark.parametrize("version", REVISIONS)
def test_subclass_adds_a_method_to_every_revision(version: str) -> None:
    revision = REVISIONS[version]
    message = Request(id=1, method="newsroom/count", params={}, revision=revision)
    context = Context(user=AnonymousUser(), revision=revision)
    assert handled(Counting(), message, context) == {"users": 0}
