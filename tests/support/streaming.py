"""Requests whose answers may be streams: under WSGI, under ASGI and on the direct lane."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from django.contrib.auth.models import User
from django.core.asgi import get_asgi_application

from mcp_bridge.testing import MCPClient
from tests.support.asgi import Exchange, scope_for
from tests.support.values import dumps

WAYS = ("wsgi", "asgi", "lane")


@dataclass
class Streamed:
    """An answer, with the events of a stream and when each arrived."""

    status: int
    headers: dict[str, str]
    body: bytes
    times: list[float] = field(default_factory=list)

    @property
    def is_stream(self) -> bool:
        return self.headers["content-type"] == "text/event-stream"

    @property
    def messages(self) -> list[dict[str, Any]]:
        if not self.is_stream:
            return [json.loads(self.body)]
        found = [each for each in self.body.split(b"\n\n") if each.startswith(b"event: message\n")]
        return [json.loads(each.removeprefix(b"event: message\ndata: ")) for each in found]

    @property
    def progress(self) -> list[dict[str, Any]]:
        """The params of the notifications of progress."""
        return [each["params"] for each in self.messages[:-1]]

    @property
    def result(self) -> dict[str, Any]:
        result: dict[str, Any] = self.messages[-1]["result"]
        return result


def calling(
    tool: str, token: object = "t", revision: str = "2026-07-28", **arguments: Any
) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a call that wants progress."""
    client = MCPClient(revision=revision)
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    message = client.message("tools/call", name=tool, arguments=arguments, **meta)
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    return {"Host": "testserver", **accept, **client.mirrored(message)}, dumps(message)


def streamed(way: str, headers: dict[str, str], body: bytes) -> Streamed:
    """Return the answer to a request on one of WAYS, read to its end."""
    if way != "wsgi":
        return asyncio.run(_over_asgi(way, headers, body))
    client = MCPClient(user=User(username="ada", pk=1, is_superuser=True))
    response = client.http.generic(
        "POST",
        "/mcp",
        body,  # type: ignore[arg-type]
        content_type="application/json",
        headers={name: value for name, value in headers.items() if name != "Content-Type"},
    )
    times: list[float] = []
    chunks = _timed(response.streaming_content, times) if response.streaming else [response.content]
    found = {name.lower(): value for name, value in response.headers.items()}
    answer = Streamed(response.status_code, found, b"".join(chunks), times)
    response.close()
    return answer


def _timed(chunks: Iterator[bytes], times: list[float]) -> Iterator[bytes]:
    for each in chunks:
        times.append(monotonic())
        yield each


def application(way: str) -> Any:
    """Return the site under ASGI: Django's application, or the direct lane around it."""
    django = get_asgi_application()
    if way == "asgi":
        return django
    from mcp_bridge.ext.lane import MCPApplication

    return MCPApplication(django)


async def _over_asgi(way: str, headers: dict[str, str], body: bytes) -> Streamed:
    scope = scope_for(headers)
    times: list[float] = []

    class Timed(Exchange):
        async def send(self, message: Any) -> None:
            if message.get("body"):
                times.append(monotonic())
            await super().send(message)

    found = await Timed(scope, body).run(application(way))
    sent = {name.decode().lower(): value.decode() for name, value in found.sent[0]["headers"]}
    return Streamed(found.status, sent, found.body, times)
