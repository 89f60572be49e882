"""
Stream the notifications of a request before its response (MCP, "Streamable HTTP").

A request with a progressToken, from a client that accepts ``text/event-stream``, is answered with
a stream from its first notification on, and with JSON if there is none.
"""

from __future__ import annotations

import asyncio
import math
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import Any, Final

from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.wsgi import WSGIRequest
from django.db import close_old_connections

from mcp_bridge.concurrency import places
from mcp_bridge.concurrency.threads import in_pool, release_thread, thread_of_request
from mcp_bridge.conf import conf
from mcp_bridge.protocol import JSONObject, Reply, Request, jsonrpc, refuse
from mcp_bridge.protocol.errors import BusyError
from mcp_bridge.protocol.input_requests import InputRequest
from mcp_bridge.protocol.jsonrpc import RequestId

MOST_A_SECOND: Final = 10
# Seconds without an event after which a comment is sent, to keep the connection open.
QUIET: Final = 15.0
# Seconds that the client may leave events unread.
UNREAD: Final = 30.0
# The growth of the progress in a heartbeat.
_STEP: Final = 1e-6
_lock: Final = threading.Lock()
# The threads of this process that wait for replies.
_waiting = 0
_HEADERS: Final = {"X-Accel-Buffering": "no"}


class Stream(ABC):
    """
    The notifications of one request and, in the end, its reply.

    ``send``, ``report`` and ``end`` may be called from any thread. The transport writes what
    ``steps`` yields. ``wake`` is called, from any thread, if there may be more to write.
    """

    # Admits the request once more, if that is possible.
    readmit: Callable[[Request], Any] | None = None
    # Sends requests to a legacy client; returns the responses by key.
    ask: Callable[[Mapping[str, InputRequest]], Awaitable[JSONObject]] | None = None
    # Headers of the response, beside those of any stream.
    headers: Mapping[str, str] = {}

    def __init__(self, frame: Callable[[bytes], bytes] | None = None) -> None:
        # Makes an event, or a comment, of what ``steps`` yields.
        self.frame = frame or event
        self.reply: Reply | None = None
        self._queue: deque[bytes] = deque()
        self._lock = threading.Lock()
        # When the request began, the last notification was sent and the last event was written.
        self._began = self._sent = self._written = monotonic()
        # Whether the client reads already, not only at the end.
        self.is_read = False
        self._token: RequestId | None = None
        # The progress that was reported and sent last, and its other members.
        self._reported: float | None = None
        self._value: float | None = None
        self._details: JSONObject = {}
        # Progress that exceeds the rate, and the times of the latest that did not.
        self._held: float | None = None
        self._times: deque[float] = deque(maxlen=MOST_A_SECOND)
        self._steps = self.steps()
        # The event that was read to know whether there are any.
        self._first: bytes | None = None

    @abstractmethod
    def wake(self) -> None: ...

    @abstractmethod
    def cancel(self) -> None:
        """Cancel the request, since its client has gone."""

    def waiting(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which a call waits for its client. Raises BusyError on entry."""
        return nullcontext()

    def send(self, notification: JSONObject) -> None:
        """Send a JSON-RPC notification, as ``put`` does."""
        self.put(jsonrpc.encode({"jsonrpc": "2.0", **notification}))

    def put(self, data: bytes) -> None:
        """Send what ``frame`` takes; cancels the request if the client has stopped reading."""
        if self.is_stuck:
            self.cancel()
            return
        now = monotonic()
        if not self._queue:
            self._written = now
        self._queue.append(data)
        if data:
            self._sent = now
        self.wake()

    def follow(self, token: RequestId) -> None:
        """Send the progress of the request under its token, even if the call reports none."""
        self._token = token

    def report(self, done: float, total: float | None, message: str) -> None:
        """Send progress (MCP, "Progress"): at most MOST_A_SECOND, each more than the last."""
        with self._lock:
            is_more = self._reported is None or done > self._reported
            if self._token is None or self.reply is not None or not is_more:
                return
            self._reported = done
            self._details = {} if total is None else {"total": total}
            if message:
                self._details["message"] = message
            if self._may_report():
                self._send_progress(done)
                return
            was_held, self._held = self._held is not None, done
        if not was_held:
            self.wake()

    @property
    def unread(self) -> int:
        """The number of messages that the client has not read yet."""
        return len(self._queue)

    @property
    def is_stuck(self) -> bool:
        """Whether the client has stopped reading."""
        return self.unread > 0 and self.is_read and monotonic() - self._written > UNREAD

    def end(self, reply: Reply) -> None:
        """Send the reply; nothing is sent after it."""
        self.reply = reply
        self.wake()

    def close(self) -> None:
        """Cancel the request, unless it has ended; servers and Django close responses so."""
        self.cancel()

    def _begun(self) -> Reply:
        """Return the reply if it came before any event, else one with the events."""
        if self._first is None:
            assert self.reply is not None
            return self.reply
        return Reply(HTTPStatus.OK, headers={**_HEADERS, **self.headers}, events=self)

    def steps(self) -> Iterator[bytes | float]:
        """
        Yield each message as JSON text, or b"" to keep the connection open, when it is due.

        In between, yields the seconds to wait, unless ``wake`` is called before. Ends with the
        reply, which is not yielded if it is the only message.
        """
        has_begun, self.is_read = False, True
        while True:
            reply = self.reply
            self._report_due(is_last=reply is not None)
            if self._queue:
                self._written = monotonic()
                yield self._queue.popleft()
                has_begun = True
            elif reply is not None:
                if has_begun:
                    yield reply.body or b""
                return
            elif has_begun and monotonic() - self._written >= QUIET:
                self._written = monotonic()
                yield b""
            else:
                yield self._pause()

    def _report_due(self, is_last: bool) -> None:
        """Send progress that was held, or a heartbeat."""
        with self._lock:
            if self._held is not None:
                if is_last or self._may_report():
                    self._send_progress(self._held)
            elif not is_last and self._until_heartbeat() <= 0:
                seconds = round(monotonic() - self._began)
                self._send_progress(self._value or 0, message=f"Running for {seconds} seconds")

    def _send_progress(self, value: float, **default: str) -> None:
        if self._value is not None and value <= self._value:
            # After a heartbeat.
            value = max(self._value + _STEP, math.nextafter(self._value, math.inf))
        self._value, self._held = value, None
        self._times.append(monotonic())
        params = {"progressToken": self._token, "progress": value, **default, **self._details}
        self.send({"method": "notifications/progress", "params": params})

    def _may_report(self) -> bool:
        return len(self._times) < MOST_A_SECOND or monotonic() - self._times[0] >= 1

    def _until_heartbeat(self) -> float:
        """Return the seconds until the next heartbeat."""
        heartbeat = conf.PROGRESS_HEARTBEAT
        if heartbeat is None or self._token is None:
            return math.inf
        return self._sent + heartbeat - monotonic()

    def _pause(self) -> float:
        """Return the seconds until something may be due."""
        pauses = [QUIET + self._written - monotonic(), self._until_heartbeat()]
        if self._token is None and conf.PROGRESS_HEARTBEAT is not None:
            # The call may begin to be followed in the meantime.
            pauses.append(conf.PROGRESS_HEARTBEAT)
        if self._held is not None:
            pauses.append(self._times[0] + 1 - monotonic())
        return max(0.001, min(pauses))


def event(message: bytes) -> bytes:
    """Return a message as an event (HTML, "Server-sent events"), or a comment if it is empty."""
    return b"event: message\ndata: " + message + b"\n\n" if message else b":\n\n"


class ThreadStream(Stream):
    """
    A stream under WSGI: the thread of the request writes, and another one runs the call.

    An iterator of events. Inside a transaction, as in tests, the call runs in the thread of the
    request, and its events are written once it has ended.
    """

    request_class = WSGIRequest

    def __init__(self, frame: Callable[[bytes], bytes] | None = None) -> None:
        super().__init__(frame)
        self._more = threading.Event()
        self._work = places.Cancellation()

    def wake(self) -> None:
        self._more.set()

    def cancel(self) -> None:
        self._work.cancel()

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        global _waiting
        with _lock:
            if _waiting >= conf.LEGACY_ASK_THREADS:
                text = "The server is busy: it asks as many clients as it can."
                raise BusyError(f"{text} Retry after 5 seconds.", 5)
            _waiting += 1
        try:
            yield
        finally:
            with _lock:
                _waiting -= 1

    async def answer(self, work: Coroutine[Any, Any, Reply], slot: object = None) -> Reply:
        """Return the reply, which has the events if a notification was sent before its end."""
        if places.must_stay():
            self.end(await work)
        else:
            self.is_read = True
            in_pool(partial(self._run, work))
        self._first = next(self, None)
        return self._begun()

    def _run(self, work: Coroutine[Any, Any, Reply]) -> None:
        reply = Reply(HTTPStatus.INTERNAL_SERVER_ERROR)
        try:
            close_old_connections()
            reply = self._work.drive(work)
        except Exception as exception:
            reply = refuse(exception)
        finally:
            self.end(reply)
            close_old_connections()

    def __iter__(self) -> ThreadStream:
        return self

    def __next__(self) -> bytes:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        for step in self._steps:
            if isinstance(step, bytes):
                return self.frame(step)
            self._more.wait(step)
            self._more.clear()
        raise StopIteration


class LoopStream(Stream):
    """
    A stream under ASGI: the call runs in a separate task.

    An asynchronous iterator of events. If reading it is cancelled, as when the client disconnects,
    so is the call.
    """

    request_class = ASGIRequest

    def __init__(self, frame: Callable[[bytes], bytes] | None = None) -> None:
        super().__init__(frame)
        self._loop: asyncio.AbstractEventLoop
        self._more = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._may_release = False

    def wake(self) -> None:
        self._soon(self._more.set)

    def cancel(self) -> None:
        if self._work is not None:
            self._soon(self._work.cancel)

    def _soon(self, function: Callable[[], object]) -> None:
        # The loop may have stopped while a thread still runs.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    async def answer(
        self, work: Coroutine[Any, Any, Reply], slot: places.RequestSlot | None = None
    ) -> Reply:
        """
        Return the reply, which has the events if a notification was sent before its end.

        ``slot`` is that of the request, if it has one.
        """
        await places.on_loop()
        self._loop = asyncio.get_running_loop()
        # Asked before the call, which replaces it for a while.
        self._may_release = thread_of_request() is None
        self._work = asyncio.create_task(self._run(work, slot))
        try:
            self._first = await self._next()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        return self._begun()

    async def _run(self, work: Coroutine[Any, Any, Reply], slot: places.RequestSlot | None) -> None:
        reply = Reply(HTTPStatus.INTERNAL_SERVER_ERROR)
        try:
            reply = await places.alternate_apart(work, slot)
        except Exception as exception:
            reply = refuse(exception)
        finally:
            if slot is not None:
                # The view may have ended before the call took it.
                slot.free()
            self.end(reply)

    def __aiter__(self) -> LoopStream:
        return self

    async def __anext__(self) -> bytes:
        if self._may_release:
            # Middleware has used the thread of the request for the last time.
            release_thread()
            self._may_release = False
        try:
            found = await self._next()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if found is None:
            raise StopAsyncIteration
        return found

    async def _next(self) -> bytes | None:
        """Return the next event, or None after the last."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        for step in self._steps:
            if isinstance(step, bytes):
                return self.frame(step)
            with suppress(TimeoutError):
                async with asyncio.timeout(step):
                    await self._more.wait()
            self._more.clear()
        return None

    async def aclose(self) -> None:
        """Cancel the call, unless it has ended, and wait for its end."""
        if self._work is not None and not self._work.done():
            self._work.cancel()
            with suppress(asyncio.CancelledError):
                await places.shield_from_cancellation(self._work)
