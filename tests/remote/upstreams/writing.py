"""How the servers in threads of the tests' process write their answers."""

from __future__ import annotations

import json
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.services import Received

MODERN, LEGACY = "2026-07-28", "2025-11-25"


def number_of(received: Received) -> Any:
    """Return the id of a request."""
    return json.loads(received.body)["id"]


def result_of(received: Received, **members: Any) -> dict[str, Any]:
    """Return the response to a request, with a text as its result."""
    result = {"content": [{"type": "text", "text": "done"}], **members}
    return {"jsonrpc": "2.0", "id": number_of(received), "result": result}


def event(message: Any, end: bytes = b"\n") -> bytes:
    """Return a message as an event of a stream."""
    return b"data: " + json.dumps(message).encode() + end + end


def chunk(data: bytes) -> bytes:
    """Return a chunk of a response (RFC 9112, section 7.1)."""
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST = chunk(b"")


def begin(handler: BaseHTTPRequestHandler, kind: str = "text/event-stream") -> None:
    """Write the head of a response in chunks."""
    handler.send_response(200)
    handler.send_header("Content-Type", kind)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()


def stream(handler: BaseHTTPRequestHandler, *events: bytes) -> None:
    """Answer with a stream that arrives, with its end, at once."""
    begin(handler)
    handler.wfile.write(chunk(b"".join(events)) + LAST)


def drop(handler: BaseHTTPRequestHandler) -> None:
    """Reset the connection."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()


def wait_for_client(handler: BaseHTTPRequestHandler) -> None:
    """Return after the client has closed the connection."""
    handler.close_connection = True
    handler.connection.recv(1)


class Repeating:
    """Write the same bytes again and again until the client has gone."""

    def __init__(self, data: bytes, pause: float = 0) -> None:
        self.data, self.pause = data, pause

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        while True:
            handler.wfile.write(self.data)
            if self.pause:
                threading.Event().wait(self.pause)
