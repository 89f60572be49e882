"""Services at the other end of HTTP, in a thread of the tests' process."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Received:
    """A request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> str:
        return urlsplit(self.target).query


# Given the request, and the handler to write the answer with.
Answer = Callable[[Received, BaseHTTPRequestHandler], None]


@dataclass
class Service:
    """The service's address, the requests it has received, and its answers by path."""

    url: str
    received: list[Received] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)


def send(
    handler: BaseHTTPRequestHandler,
    body: Any = b"",
    status: int = 200,
    kind: str = "application/json",
    **headers: str,
) -> None:
    """Answer with bytes, or with a value as JSON."""
    written = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    if kind:
        handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(written)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(written)


def echo(received: Received, handler: BaseHTTPRequestHandler) -> None:
    """Answer with the request."""
    send(
        handler,
        {
            "method": received.method,
            "path": received.path,
            "query": received.query,
            "type": received.headers.get("content-type"),
            "body": received.body.decode("utf-8", "replace"),
        },
    )


@contextmanager
def service(tls: ssl.SSLContext | None = None, **answers: Answer) -> Iterator[Service]:
    """Run a service that answers paths by their first part, and others with the request itself."""
    made: Service

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Its headers and its body are two writes.
        disable_nagle_algorithm = True

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            received = Received(self.command, self.path, headers, body)
            made.received.append(received)
            first = received.path.split("/")[1]
            # The client may be gone by then.
            with suppress(OSError):
                made.answers.get(first, echo)(received, self)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "http" if tls is None else "https"
    made = Service(f"{scheme}://127.0.0.1:{server.server_port}", answers=dict(answers))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
