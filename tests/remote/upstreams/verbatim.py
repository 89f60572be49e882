"""A server that writes members that no schema has, and keeps what it has received."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from itertools import count
from typing import Any, Final

from tests.remote.upstreams.writing import LAST, MODERN, begin, chunk, event, stream
from tests.support.services import Received, send, service

TOOLS: Final[list[dict[str, Any]]] = [
    {
        "name": "look",
        "inputSchema": {"type": "object", "x-unknown": [2**60]},
        "_meta": {"vendor/key": {"deep": None}},
        "unknown": {"member": True},
    }
]
RESULT: Final[dict[str, Any]] = {
    "content": [
        {"type": "text", "text": "Größe", "unknown": 1.5, "_meta": {"vendor/key": 1}},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 2**60, "unknown": []},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav", "annotations": {"priority": 0}},
        {"type": "hologram", "depth": 3},
    ],
    "structuredContent": {"big": 2**60, "none": None},
    "isError": False,
    "_meta": {"vendor/key": [2**60]},
    "unknown": {"member": None},
}


@dataclass(frozen=True)
class Seen:
    """A message that the server has received: its method, "" for a response, and its headers."""

    method: str
    session: str | None
    credential: str | None
    message: dict[str, Any]


@dataclass
class Verbatim:
    """A server of one revision, which answers in streams if it ``streams``."""

    version: str
    streams: bool = False
    # The status for a session that it does not know.
    status_of_unknown: int = 404
    # That for another revision, and whether it answers discovery all the same.
    status_of_other: int = 400
    discovers: bool = False
    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    # The ports of the client's connections.
    connections: set[int] = field(default_factory=set)
    sessions: set[str] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _answered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @property
    def methods(self) -> list[str]:
        return [each.method for each in self.seen]

    def __call__(self, received: Received, handler: BaseHTTPRequestHandler) -> None:
        self.connections.add(handler.client_address[1])
        headers, message = received.headers, json.loads(received.body or b"{}")
        method = message.get("method", "DELETE" if received.method == "DELETE" else "")
        session = headers.get("mcp-session-id")
        self.seen.append(Seen(method, session, headers.get("authorization"), message))
        spoken = headers.get("mcp-protocol-version")
        is_modern = self.version == MODERN
        if spoken != self.version and not (spoken is None and method == "initialize"):
            if self.discovers and method == "server/discover":
                self._answer(handler, message)
            else:
                code = -32022 if is_modern else -32600
                self._refuse(handler, message, self.status_of_other, code)
        elif is_modern and method == "initialize":
            self._refuse(handler, message, 400, -32022)
        elif not is_modern and method != "initialize" and session not in self.sessions:
            self._refuse(handler, {}, self.status_of_unknown, -32000)
        elif "id" not in message or not method:
            send(handler, status=202)
            self._answered.release()
        elif message.get("params", {}).get("name") == "ask":
            self._ask(handler, message)
        else:
            self._answer(handler, message)

    def _answer(self, handler: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        results: dict[str, dict[str, Any]] = {
            "server/discover": {"supportedVersions": [self.version], "capabilities": {}},
            "initialize": {"protocolVersion": self.version, "capabilities": {}},
            "tools/list": {"tools": TOOLS, "unknown": 2**60},
            "tools/call": RESULT,
        }
        result, headers = results[message["method"]], dict[str, str]()
        if message["method"] == "initialize":
            session = f"session-{next(self._numbers)}"
            self.sessions.add(session)
            headers["Mcp-Session-Id"] = session
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if self.streams and not headers:
            stream(handler, event(answer))
        else:
            send(handler, answer, 200, "application/json", **headers)

    def _ask(self, handler: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        """Send two requests to the client, and its result after both have been answered."""
        begin(handler)
        for method in ("ping", "elicitation/create"):
            request = {"jsonrpc": "2.0", "id": method, "method": method}
            handler.wfile.write(chunk(event(request)))
            assert self._answered.acquire(timeout=30)
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": RESULT}
        handler.wfile.write(chunk(event(answer)) + LAST)

    def _refuse(
        self, handler: BaseHTTPRequestHandler, message: dict[str, Any], status: int, code: int
    ) -> None:
        error = {"code": code, "message": "refused"}
        answer = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
        send(handler, answer, status=status)


@contextmanager
def running(version: str, **options: Any) -> Iterator[Verbatim]:
    """Run a server; it ends with the block."""
    server = Verbatim(version, **options)
    with service(mcp=server) as running:
        server.url = f"{running.url}/mcp"
        yield server
