"""Bodies, replies and disconnects over ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, MutableMapping
from contextlib import aclosing
from types import coroutine
from typing import Any, Final, TypeAlias

from mcp_bridge.protocol import Reply

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# Seconds before the server starts to watch for a disconnect.
UNHEARD: Final = 0.02


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete."""


async def read_body(receive: Receive, declared: int, limit: int) -> tuple[bytes, bool]:
    """
    Return the body, and whether it is complete: nothing is received beyond the limit.

    If it is ``declared`` to be larger, nothing at all is received. Raises ClientDisconnected.
    """
    if declared > limit:
        return b"", False
    chunks: list[bytes] = []
    size, more = 0, True
    while more and size <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        chunk: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        chunks.append(chunk)
        size += len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks), not more


async def send_reply(send: Send, reply: Reply) -> None:
    """Send a reply, which must not be cached."""
    body = reply.body or b""
    if reply.events is not None:
        headers = [(b"Cache-Control", b"no-store"), (b"Content-Type", b"text/event-stream")]
    else:
        headers = [(b"Cache-Control", b"no-store"), (b"Content-Length", b"%d" % len(body))]
    if reply.body is not None:
        headers.append((b"Content-Type", b"application/json"))
    for name, value in reply.headers.items():
        headers.append((name.encode("ascii"), value.encode("latin-1")))
    await send({"type": "http.response.start", "status": int(reply.status), "headers": headers})
    if reply.events is not None:
        async with aclosing(reply.events) as events:
            async for event in events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": body})


@coroutine
def unless_disconnected(
    receive: Receive, work: Coroutine[Any, Any, None]
) -> Generator[Any, Any, None]:
    """Await the work; cancel it if the client disconnects first."""
    try:
        wanted = work.send(None)
    except StopIteration:
        # Most calls of coroutine functions never suspend, so there is nothing to watch.
        return
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    listening: asyncio.Task[None] | None = None
    has_gone = False

    async def listen() -> None:
        nonlocal has_gone
        while (await receive())["type"] != "http.disconnect":
            pass
        has_gone = True
        task.cancel()

    def begin() -> None:
        nonlocal listening
        listening = loop.create_task(listen())

    # Watching takes longer than work that ends before this.
    beginning = loop.call_later(UNHEARD, begin)
    try:
        yield from _go_on(work, wanted)
    except asyncio.CancelledError:
        # A server that shuts down cancels as well.
        if not has_gone or task.uncancel():
            raise
    finally:
        beginning.cancel()
        if listening is not None:
            listening.cancel()


def _go_on(work: Coroutine[Any, Any, None], wanted: Any) -> Generator[Any, Any, None]:
    """Continue a coroutine that has started and waits for ``wanted``."""
    while True:
        step: Callable[[Any], Any] = work.send
        value: Any = None
        try:
            value = yield wanted
        except BaseException as raised:
            step, value = work.throw, raised
        try:
            wanted = step(value)
        except StopIteration:
            return
