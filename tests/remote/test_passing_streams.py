"""Streams of a remote server that is passed through, and clients that leave them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections, transaction
from django.test import Client
from django.urls import include, path

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.records.rows import flush
from mcp_bridge.remote.models import RemoteServer
from mcp_bridge.testing import MCPClient
from mcp_bridge.tokens.models import Token
from tests.remote import desk as desks
from tests.remote.desk import Desk, open_desk
from tests.remote.upstreams.writing import LAST, begin, chunk, event
from tests.support.asgi import Exchange, scope_for
from tests.support.services import Received
from tests.support.streaming import application

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.off_lane,
]
urlpatterns = [
    path("wsgi/", include("mcp_bridge.remote.urls")),
    path("asgi/", include("mcp_bridge.remote.urls_async")),
    path("", include("mcp_bridge.urls")),
]
NOTICE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}}


@pytest.fixture
def desk(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    # A live server of earlier tests shares its connection, which would keep calls in the thread.
    monkeypatch.setattr(connections["default"], "_thread_sharing_count", 0)
    settings.ROOT_URLCONF = __name__
    settings.MCP_BRIDGE = {}
    with open_desk() as desk:
        desks.allow(settings, desk.url)
        RemoteServer.objects.create(
            slug="weather", name="Weather", url=desk.url, permission="auth.view_group"
        )
        yield desk


@pytest.fixture
def sent() -> tuple[dict[str, str], bytes]:
    """The headers and the body of a call."""
    _, secret = Token.objects.issue(user=User.objects.create_superuser("ada"), name="Laptop")
    client = MCPClient(token=secret)
    message = client.message("tools/call", name="forecast", arguments={})
    headers = {"Accept": "application/json, text/event-stream", **client.headers}
    return {**headers, **client.mirrored(message)}, json.dumps(message).encode()


class Endless:
    """Events until the client has gone."""

    def __init__(self, pause: float, size: int = 1) -> None:
        self.pause, self.gone, self.written = pause, threading.Event(), 0
        self.event = chunk(event(NOTICE | {"params": {"data": "x" * size}}))

    def __call__(self, received: Received, handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        begin(handler)
        try:
            while True:
                handler.wfile.write(self.event)
                self.written += 1
                threading.Event().wait(self.pause)
        except OSError:
            self.gone.set()


def leave_wsgi(headers: dict[str, str], body: bytes, after: int) -> None:
    """Read so many events over WSGI, and disconnect."""
    response: Any = Client().generic(
        "POST", "/wsgi/weather", body, content_type="application/json", headers=headers
    )
    for _ in range(after):
        next(response.streaming_content)
    response.close()


def leave_asgi(headers: dict[str, str], body: bytes, after: int) -> None:
    """Read so many events over ASGI, and disconnect."""

    class Leaving(Exchange):
        def __init__(self) -> None:
            super().__init__(scope_at(headers), body)
            self.gone = asyncio.Event()

        async def receive(self) -> Any:
            if self.events:
                return self.events.pop(0)
            await self.gone.wait()
            return {"type": "http.disconnect"}

        async def send(self, message: Any) -> None:
            await super().send(message)
            if len(self.sent) > after:
                self.gone.set()

    async def run() -> None:
        await Leaving().run(application("asgi"))

    asyncio.run(run())


def scope_at(headers: dict[str, str]) -> dict[str, Any]:
    own = {"Host": "testserver", "Content-Type": "application/json"}
    return {**scope_for({**own, **headers}), "path": "/asgi/weather"}


LEAVE: dict[str, Callable[[dict[str, str], bytes, int], None]] = {
    "wsgi": leave_wsgi,
    "asgi": leave_asgi,
}


@pytest.mark.parametrize("after", [1, 4])
@pytest.mark.parametrize("way", LEAVE)
def test_client_that_leaves_ends_the_request_to_the_server(
    desk: Desk, sent: tuple[dict[str, str], bytes], way: str, after: int
) -> None:
    desk.raw = endless = Endless(0.01)
    LEAVE[way](*sent, after)
    assert endless.gone.wait(10)
    flush()
    assert ToolCallRecord.objects.get().outcome == "cancelled"


@pytest.mark.parametrize("way", LEAVE)
def test_client_that_leaves_a_silent_stream_ends_it(
    desk: Desk, sent: tuple[dict[str, str], bytes], way: str
) -> None:
    gone = threading.Event()

    def answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
        begin(handler)
        handler.wfile.write(chunk(event(NOTICE)))
        handler.close_connection = True
        handler.connection.recv(1)
        gone.set()

    desk.raw = answer
    LEAVE[way](*sent, 2)
    assert gone.wait(10)


def test_slow_client_makes_the_server_wait(desk: Desk, sent: tuple[dict[str, str], bytes]) -> None:
    desk.raw = endless = Endless(0, size=100_000)
    response: Any = Client().generic(
        "POST", "/wsgi/weather", sent[1], content_type="application/json", headers=sent[0]
    )
    next(response.streaming_content)
    before = -1
    while before != endless.written:
        before = endless.written
        threading.Event().wait(0.3)
    # Those that are queued, and those in the buffers of the sockets.
    assert endless.written < 200
    response.close()
    assert endless.gone.wait(10)


def test_stream_over_asgi_is_whole(desk: Desk, sent: tuple[dict[str, str], bytes]) -> None:
    def answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
        begin(handler)
        result = {"jsonrpc": "2.0", "id": json.loads(received.body)["id"], "result": {}}
        handler.wfile.write(chunk(event(NOTICE)) + chunk(event(result)) + LAST)

    desk.raw = answer
    found = asyncio.run(Exchange(scope_at(sent[0]), sent[1]).run(application("asgi")))
    assert found.status == 200
    lines = [each for each in found.body.splitlines() if each.startswith(b"data: ")]
    assert [sorted(json.loads(each[6:])) for each in lines] == [
        ["jsonrpc", "method", "params"],
        ["id", "jsonrpc", "result"],
    ]


def test_stream_ends_with_the_permission(
    desk: Desk, sent: tuple[dict[str, str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.raw = endless = Endless(0.05)
    response: Any = Client().generic(
        "POST", "/wsgi/weather", sent[1], content_type="application/json", headers=sent[0]
    )
    next(response.streaming_content)
    RemoteServer.objects.update(permission="")
    monkeypatch.setattr("mcp_bridge.remote.passing.CREDENTIAL", 0)
    received = b"".join(response.streaming_content)
    assert b"result" not in received
    last = json.loads(received.rpartition(b"data: ")[2].partition(b"\n")[0])
    assert last["id"] == json.loads(sent[1])["id"]
    assert last["error"]["message"] == "Unknown remote server."
    assert endless.gone.wait(10)
    flush()
    record = ToolCallRecord.objects.get()
    assert (record.outcome, record.error_code) == ("failed", "forbidden")


def test_stream_in_a_transaction_is_limited(desk: Desk, sent: tuple[dict[str, str], bytes]) -> None:
    RemoteServer.objects.update(max_body_bytes=5_000)
    desk.raw = Endless(0)
    with transaction.atomic():
        response: Any = Client().generic(
            "POST", "/wsgi/weather", sent[1], content_type="application/json", headers=sent[0]
        )
        received = b"".join(response.streaming_content)
    assert 5_000 < len(received) < 10_000
    assert b"sent more than 5000 bytes, which is the limit" in received


def get(headers: dict[str, str]) -> Exchange:
    """Open a stream over ASGI, as legacy clients do; return the answer after they have left."""

    class Leaving(Exchange):
        async def send(self, message: Any) -> None:
            await super().send(message)
            if len(self.sent) > 3:
                raise asyncio.CancelledError

    scope = {**scope_at(headers), "method": "GET"}
    found = Leaving(scope, b"")
    with suppress(asyncio.CancelledError):
        asyncio.run(found.run(application("asgi")))
    return found


def test_stream_of_a_legacy_client_is_relayed(
    desk: Desk, sent: tuple[dict[str, str], bytes]
) -> None:
    desk.raw = endless = Endless(0.01)
    headers = {**sent[0], "MCP-Protocol-Version": "2025-11-25"}
    found = get(headers)
    assert (found.status, found.body.count(b"data: ") > 0) == (200, True)
    assert endless.gone.wait(10)
    assert desk.received[-1].method == "GET"


def test_silent_stream_of_a_legacy_client_ends_quietly(
    desk: Desk, sent: tuple[dict[str, str], bytes]
) -> None:
    RemoteServer.objects.update(idle_s=1)

    def answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
        begin(handler)
        handler.connection.recv(1)

    desk.raw = answer
    found = get({**sent[0], "MCP-Protocol-Version": "2025-11-25"})
    assert b"data" not in found.body
    flush()
    assert ToolCallRecord.objects.get().outcome == "succeeded"


def test_streams_of_one_caller_are_limited(
    desk: Desk, sent: tuple[dict[str, str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_bridge.remote.admission.MOST_OF_CALLER", 0)
    found = get(sent[0])
    assert (found.status, b"Too many streams" in found.body) == (429, True)
    assert desk.received == []


def test_streams_that_last_are_for_asgi(desk: Desk, sent: tuple[dict[str, str], bytes]) -> None:
    response = Client().get("/wsgi/weather", headers=sent[0])
    assert (response.status_code, response.headers["Allow"]) == (405, "POST, DELETE")
