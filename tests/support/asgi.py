"""Calls as an ASGI server passes them on, with clients that may disconnect before the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import Any

from asgiref.testing import ApplicationCommunicator

from mcp_bridge.testing import MCPClient
from tests.support import lane
from tests.support.values import dumps


def scope_of(tool: str, **arguments: Any) -> tuple[dict[str, Any], bytes]:
    """Return the scope and the body of a call."""
    client = MCPClient()
    message = client.message("tools/call", name=tool, arguments=arguments)
    sent = {"Host": "testserver", "Content-Type": "application/json", **client.mirrored(message)}
    return scope_for(sent), dumps(message)


def scope_for(headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the scope of a POST to the endpoint with these headers."""
    return scope_with([(name.lower().encode(), headers[name].encode()) for name in headers])


def scope_with(headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    """Return the scope of a POST to the endpoint."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/mcp",
        "query_string": b"",
        "headers": headers,
    }


async def posted(tool: str, status: int | None = 200, **arguments: Any) -> bytes:
    """Return the answer to a call, which has that HTTP status, or any."""
    return await sent(*scope_of(tool, **arguments), status)


async def sent(scope: dict[str, Any], message: bytes, status: int | None = 200) -> bytes:
    """Return the answer to a message, which has that HTTP status, or any."""
    application = ApplicationCommunicator(lane.application(), scope)
    await application.send_input({"type": "http.request", "body": message})
    assert status in (None, (await application.receive_output(10))["status"])
    body: bytes = (await application.receive_output(10))["body"]
    await application.wait(10)
    return body


class Departing:
    """A call whose client does not wait for the answer."""

    def __init__(self, tool: str, **arguments: Any) -> None:
        scope, message = scope_of(tool, **arguments)
        self._input: asyncio.Queue[Any] = asyncio.Queue()
        self._input.put_nowait({"type": "http.request", "body": message})
        # Messages sent after the client has disconnected.
        self.sent: list[MutableMapping[str, Any]] = []
        self.task = asyncio.ensure_future(lane.application()(scope, self._input.get, self._send))

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)

    async def go(self, times: int = 1) -> None:
        """Disconnect; a server that is stopped cancels the running code once more."""
        self._input.put_nowait({"type": "http.disconnect"})
        await asyncio.sleep(0.05)
        for _ in range(times - 1):
            self.task.cancel()
            await asyncio.sleep(0.05)

    async def end(self) -> None:
        await asyncio.wait([self.task], timeout=10)
        assert self.task.done()
        if not self.task.cancelled():
            self.task.exception()


class Exchange:
    """One request to an application, as a server passes it on, and its answer."""

    def __init__(self, scope: dict[str, Any], *chunks: bytes, leaves: bool = False) -> None:
        self.scope, self.leaves = scope, leaves
        last = len(chunks) - 1
        self.events: list[Any] = [
            {"type": "http.request", "body": each, "more_body": leaves or number < last}
            for number, each in enumerate(chunks)
        ]
        self.received = 0
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        self.received += 1
        if self.events:
            return self.events.pop(0)
        if self.leaves:
            return {"type": "http.disconnect"}
        return await asyncio.get_running_loop().create_future()

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def run(self, application: Any) -> Exchange:
        await application(self.scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(each.get("body", b"") for each in self.sent[1:])


def exchange(application: Any, scope: dict[str, Any], *chunks: bytes, **more: Any) -> Exchange:
    return asyncio.run(Exchange(scope, *chunks, **more).run(application))
