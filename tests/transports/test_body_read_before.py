"""The endpoint behind code of the site that has read the body of the request before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.utils.decorators import sync_and_async_middleware
from rest_framework.authentication import BaseAuthentication
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from mcp_bridge import Context
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.wire import refused, somebody
from tests.transports.test_async_view import Door

HERE = __name__
# How the middleware reads.
READ: list[Callable[[HttpRequest], None]] = [lambda request: None]


def reads_body_and_iterates(request: HttpRequest) -> None:
    """Read the request as label-studio's ContextLogMiddleware does."""
    json.loads(request.body)
    assert "server_id" not in request  # type: ignore[operator]


def reads_body(request: HttpRequest) -> None:
    assert request.body


def reads_body_and_the_stream(request: HttpRequest) -> None:
    assert request.body == request.read()


def reads_body_and_lines(request: HttpRequest) -> None:
    assert request.body == b"".join(request.readlines())


def reads_post(request: HttpRequest) -> None:
    assert not request.POST
    assert not request.FILES


def reads_body_and_data(request: HttpRequest) -> None:
    assert request.body
    request.read()
    assert Request(request, parsers=[JSONParser()]).data["jsonrpc"] == "2.0"


def reads_data(request: HttpRequest) -> None:
    assert Request(request, parsers=[JSONParser()]).data["jsonrpc"] == "2.0"


READERS = [
    *(reads_body_and_iterates, reads_body, reads_body_and_the_stream, reads_body_and_lines),
    *(reads_post, reads_data, reads_body_and_data),
]


@sync_and_async_middleware
def reading(get_response: Any) -> Any:
    """Read the request in a middleware, as many that log do; a test sets ``read``."""

    async def respond_async(request: HttpRequest) -> Any:
        READ[0](request)
        return await get_response(request)

    def respond(request: HttpRequest) -> Any:
        READ[0](request)
        return get_response(request)

    return respond_async if iscoroutinefunction(get_response) else respond


def peek(context: Context) -> bool:
    """Read the body of the request."""
    return b'"peek"' in context.request.body


def read_before(settings: Any, read: Callable[[HttpRequest], None]) -> None:
    """Install a middleware that reads before the endpoint."""
    READ[0] = read
    settings.MIDDLEWARE = [f"{HERE}.reading", *settings.MIDDLEWARE]


@pytest.fixture(params=["WSGI", "ASGI"])
def client(request: pytest.FixtureRequest, settings: Any) -> MCPClient:
    """Return a client without a credential."""
    client = CheckedClient()
    if request.param == "ASGI":
        client.http = Door(None)
    serve(settings, peek, asynchronous=request.param == "ASGI", read_only=True, public=True)
    return client


@pytest.mark.parametrize("read", READERS)
def test_body_read_by_middleware_is_taken(client: MCPClient, read: Any, settings: Any) -> None:
    read_before(settings, read)
    assert client.call_tool("peek")["structuredContent"] == {"result": True}


def test_limit_holds_for_a_body_read_before(client: MCPClient, settings: Any) -> None:
    read_before(settings, reads_body)
    settings.MCP_BRIDGE = {"MAX_BODY_BYTES": 50}
    message = client.message("ping")
    refused(client.send(json.dumps(message).encode(), client.mirrored(message)), 413, -32600)


@pytest.mark.off_lane
@pytest.mark.parametrize(
    "read",
    [
        lambda request: request.read(),
        lambda request: request.read(10),
        lambda request: request.readline(),
    ],
)
def test_body_read_but_not_kept_is_named(
    client: MCPClient,
    read: Any,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    read_before(settings, read)
    message = client.message("ping")
    response = client.send(json.dumps(message).encode(), client.mirrored(message))
    refused(response, 200, -32603)
    assert "read request.body, which Django keeps" in caplog.text


class SignedAuthentication(BaseAuthentication):
    """A class that finds the caller in the body, as of a signed message."""

    def authenticate(self, request: Any) -> tuple[Any, None]:
        assert request.data["method"] == "tools/call"
        return somebody(), None


class MethodThrottle(BaseThrottle):
    """A class that counts by the method."""

    def allow_request(self, request: Any, view: Any) -> bool:
        return bool(request.data["method"] == "tools/call")


class BodyThrottle(BaseThrottle):
    def allow_request(self, request: Any, view: Any) -> bool:
        return b"tools/call" in request.body


@pytest.mark.parametrize(
    "options",
    [
        {"AUTHENTICATION_CLASSES": [f"{HERE}.SignedAuthentication"]},
        {"THROTTLE_CLASSES": [f"{HERE}.MethodThrottle"]},
        {"THROTTLE_CLASSES": [f"{HERE}.BodyThrottle"]},
        {"THROTTLE_CLASSES": [f"{HERE}.MethodThrottle", f"{HERE}.BodyThrottle"]},
        {
            "AUTHENTICATION_CLASSES": [f"{HERE}.SignedAuthentication"],
            "THROTTLE_CLASSES": [f"{HERE}.MethodThrottle"],
        },
    ],
)
def test_body_read_by_an_access_class_is_taken(
    client: MCPClient, options: Any, settings: Any
) -> None:
    settings.MCP_BRIDGE = options
    assert client.call_tool("peek")["structuredContent"] == {"result": True}
