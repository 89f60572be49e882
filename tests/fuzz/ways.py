"""A request as servers hand it to Django: under WSGI, under ASGI, and to the direct lane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from asgiref.sync import async_to_sync
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application

from mcp_bridge.ext.lane import MCPApplication
from tests.fuzz.mutations import Sent


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


Way = Callable[[Sent], Answer]


def wsgi() -> Way:
    application = get_wsgi_application()

    def send(sent: Sent) -> Answer:
        environ: dict[str, Any] = {
            **{"REQUEST_METHOD": sent.method, "SCRIPT_NAME": "", "PATH_INFO": "/mcp"},
            **{"SERVER_NAME": "testserver", "SERVER_PORT": "80", "REMOTE_ADDR": "127.0.0.1"},
            **{"SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http", "QUERY_STRING": ""},
            **{"wsgi.input": BytesIO(sent.body), "wsgi.version": (1, 0)},
        }
        for name, value in sent.headers:
            key = name.decode().upper().replace("-", "_")
            key = key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"
            # As PEP 3333 and RFC 9110 have it.
            text = value.decode("latin-1").strip(" \t")
            environ[key] = f"{environ[key]},{text}" if key in environ else text
        started: list[Any] = []
        response = application(environ, lambda *args: started.append(args))
        try:
            body = b"".join(response)
        finally:
            response.close()
        status, headers = started[0]
        return Answer(int(status[:3]), {name.lower(): value for name, value in headers}, body)

    return send


def asgi() -> Way:
    return _over_asgi(get_asgi_application())


def lane() -> Way:
    return _over_asgi(MCPApplication(get_asgi_application()))


def _over_asgi(application: Any) -> Way:
    async def run(sent: Sent) -> list[Any]:
        half = len(sent.body) // 2
        events = [
            {"type": "http.request", "body": sent.body[half:], "more_body": False},
            {"type": "http.request", "body": sent.body[:half], "more_body": True},
        ]
        answered: list[Any] = []

        async def receive() -> Any:
            if events:
                return events.pop()
            return await asyncio.get_running_loop().create_future()

        async def send(message: Any) -> None:
            answered.append(message)

        scope = {
            **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1"},
            **{"method": sent.method, "scheme": "http", "path": "/mcp", "query_string": b""},
            **{"client": ("127.0.0.1", 50000), "server": ("testserver", 80)},
            "headers": [(name, value.strip(b" \t")) for name, value in sent.headers],
        }
        await application(scope, receive, send)
        return answered

    def send(sent: Sent) -> Answer:
        start, *rest = async_to_sync(run)(sent)
        headers = {
            name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]
        }
        return Answer(start["status"], headers, b"".join(each["body"] for each in rest))

    return send
