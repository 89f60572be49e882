"""A small MCP server of the modern era in a thread, whose tools and answers a test may change."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from tests.support.services import Received, Service, send, service

MODERN: Final = "2026-07-28"


def tool(name: str, description: str = "Look at it.", **schema: Any) -> dict[str, Any]:
    """Return the definition of a tool."""
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", **schema},
        "annotations": {"readOnlyHint": True},
    }


def html(received: Received, handler: BaseHTTPRequestHandler) -> None:
    """Answer as a web site does."""
    send(handler, b"<html><title>Welcome</title></html>", kind="text/html")


def unauthorized(received: Received, handler: BaseHTTPRequestHandler) -> None:
    """Refuse the credential."""
    send(handler, {"error": "unauthorized"}, status=401)


def failing(received: Received, handler: BaseHTTPRequestHandler) -> None:
    """Answer as a server does that is down."""
    send(handler, b"down", status=503, kind="text/plain")


@dataclass
class Tiny:
    """
    The server: its tools, and what it has received.

    ``answer`` replaces its answers. Set ``silence`` to end an answer that does not come.
    """

    service: Service
    tools: list[dict[str, Any]] = field(default_factory=lambda: [tool("forecast")])
    answer: Callable[[Received, BaseHTTPRequestHandler], None] | None = None
    silence: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"{self.service.url}/mcp"

    @property
    def host(self) -> str:
        return self.service.url.removeprefix("http://")

    def header(self, name: str) -> str | None:
        """Return a header of the last request."""
        return self.service.received[-1].headers.get(name)

    def silent(self, received: Received, handler: BaseHTTPRequestHandler) -> None:
        """Do not answer until ``silence`` is set."""
        self.silence.wait(30)
        handler.close_connection = True

    def respond(self, received: Received, handler: BaseHTTPRequestHandler) -> None:
        if self.answer is not None:
            self.answer(received, handler)
            return
        message = json.loads(received.body)
        result: dict[str, Any] = {"resultType": "complete"}
        if message["method"] == "server/discover":
            info = {"name": "Tiny <b>", "version": "1"}
            meta = {"io.modelcontextprotocol/serverInfo": info}
            result |= {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "_meta": meta}
        elif message["method"] == "tools/list":
            result |= {"tools": self.tools}
        else:
            result |= {"content": [{"type": "text", "text": "It rains."}]}
        send(handler, {"jsonrpc": "2.0", "id": message["id"], "result": result})


@contextmanager
def running() -> Iterator[Tiny]:
    """Run the server until the end of the block."""
    with service() as made:
        tiny = Tiny(made)
        made.answers["mcp"] = tiny.respond
        try:
            yield tiny
        finally:
            tiny.silence.set()
