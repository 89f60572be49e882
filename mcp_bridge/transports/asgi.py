"""What comes and goes over ASGI: bodies, replies, disconnects, and the threads of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Token, copy_context
from functools import partial
from time import monotonic as now
from typing import Any, Final, TypeAlias, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.conf import settings
from django.core.cache import caches, close_caches
from django.core.cache.backends.base import BaseCache
from django.core.handlers.base import reset_urlconf
from django.db import close_old_connections, connections, reset_queries
from django.dispatch import Signal
from django.utils.module_loading import import_string

from mcp_bridge.protocol import Reply

T = TypeVar("T")

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# For how long nothing is done about a client that has gone, in seconds.
UNHEARD: Final = 0.02
# Threads without a request that are kept, each with its connections to databases.
MOST_IDLE: Final = 32
# What Django itself has connected to the signals of requests.
_OF_DJANGO: Final = frozenset({close_caches, close_old_connections, reset_queries, reset_urlconf})

# The receivers that each signal had when it was last asked for others, and whether it had.
_asked: dict[Signal, tuple[list[Any], bool]] = {}


class ClientDisconnected(Exception):
    """The client has gone before its request was there."""


async def read_body(receive: Receive, declared: int, limit: int) -> tuple[bytes, bool]:
    """
    Return the body, and whether that is all of it: nothing is received beyond the limit.

    Nothing at all is received of one that is ``declared`` to be larger. Raises ClientDisconnected.
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
    """Send a reply, which nobody may keep."""
    body = reply.body or b""
    headers = [(b"Cache-Control", b"no-store"), (b"Content-Length", b"%d" % len(body))]
    if reply.body is not None:
        headers.append((b"Content-Type", b"application/json"))
    for name, value in reply.headers.items():
        headers.append((name.encode("ascii"), value.encode("latin-1")))
    await send({"type": "http.response.start", "status": int(reply.status), "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def unless_disconnected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Await the work, and cancel it where the client disconnects before it has ended."""
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

    # To listen takes longer than what ends before that.
    beginning = loop.call_later(UNHEARD, begin)
    try:
        await work
    except asyncio.CancelledError:
        # A server that stops cancels as well.
        if not has_gone or task.uncancel():
            raise
    finally:
        beginning.cancel()
        if listening is not None:
            listening.cancel()


class RequestThread(ThreadPoolExecutor):
    """A thread that serves one request after another, and cares for connections between them."""

    # asgiref's context of the request that has it, and what ends that.
    lent: tuple[ThreadSensitiveContext, Token[ThreadSensitiveContext]]

    def __init__(self) -> None:
        super().__init__(max_workers=1, thread_name_prefix="mcp_bridge")
        self._last: Future[Any] | None = None
        self._is_fresh = True
        self._must_end = False

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        self._last = future = super().submit(partial(self._run, function), *args, **kwargs)
        return future

    def _run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        if self._is_fresh:
            self._is_fresh = False
            reset_queries()
            close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            # By CONN_MAX_AGE; what is to be closed later, the next request closes.
            self._must_end = any(
                each.connection is not None and each.close_at is not None and each.close_at <= now()
                for each in connections.all(initialized_only=True)
            )

    def end_request(self, closes_caches: bool) -> bool:
        """Have it end the request. Returns False where something of the request still runs."""
        is_idle = self._last is None or self._last.done()
        if self._must_end or closes_caches and any(caches.all(initialized_only=True)):
            super().submit(copy_context().run, _end)
        self._last, self._is_fresh = None, True
        return is_idle


class RequestThreads:
    """
    The threads of requests: each request has one to itself, which begins when it is first used.

    Django makes a thread for each request under ASGI, and with it new connections to databases.
    """

    def __init__(self) -> None:
        self._idle: list[RequestThread] = []
        backends = [import_string(str(each["BACKEND"])) for each in settings.CACHES.values()]
        # Those of memcached have connections, most others none.
        self._closes_caches = any(each.close is not BaseCache.close for each in backends)

    def lend(self) -> RequestThread:
        """Have a thread run what is thread-sensitive (asgiref's ``sync_to_async``) in this task."""
        thread = self._idle.pop() if self._idle else RequestThread()
        context = ThreadSensitiveContext()
        thread.lent = context, SyncToAsync.thread_sensitive_context.set(context)
        # Given to ThreadSensitiveContext itself, asgiref would refuse what the tasks that a tool
        # has begun, and not awaited, do in a thread after the answer.
        SyncToAsync.context_to_thread_executor[context] = thread
        return thread

    def take_back(self, thread: RequestThread) -> None:
        """End the request that has lent a thread."""
        context, token = thread.lent
        SyncToAsync.context_to_thread_executor.pop(context, None)
        SyncToAsync.thread_sensitive_context.reset(token)
        if thread.end_request(self._closes_caches) and len(self._idle) < MOST_IDLE:
            self._idle.append(thread)
        else:
            _stop(thread)

    def stop(self) -> None:
        """End the threads that serve no request, and their connections to databases."""
        while self._idle:
            _stop(self._idle.pop())


def others_listen(signal: Signal, sender: object) -> bool:
    """Return whether a signal of requests has receivers that are not Django's own."""
    receivers, others = _asked.get(signal, (None, False))
    if signal.receivers != receivers:
        found = signal._live_receivers(sender)
        others = any(receiver not in _OF_DJANGO for kind in found for receiver in kind)
        _asked[signal] = [*signal.receivers], others
    return others


def _end() -> None:
    close_old_connections()
    close_caches()


def _stop(thread: RequestThread) -> None:
    thread.submit(connections.close_all)
    thread.shutdown(wait=False)
