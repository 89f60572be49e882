"""MCP over standard input and output: one JSON-RPC message a line (MCP, "Transports", "stdio")."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import ExitStack, aclosing, asynccontextmanager, suppress
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, BinaryIO, Final, TypeAlias

from mcp_bridge.concurrency import places
from mcp_bridge.conf import conf
from mcp_bridge.protocol import JSONObject, Request, Result, answer, errors, refuse
from mcp_bridge.protocol.jsonrpc import RequestId
from mcp_bridge.protocol.requests import NAMED_BY
from mcp_bridge.protocol.revisions import UNDECLARED, negotiate
from mcp_bridge.transports.sessions import Session
from mcp_bridge.transports.streams import LoopStream

# Calls that run at once, and messages that are kept while they wait for that.
MOST_CALLS: Final = 8
MOST_WAITING: Final = 100

# Returns the result of a request or notification, whose progress is sent on the stream.
Handle: TypeAlias = Callable[[Request, LoopStream | None], Awaitable[Result]]


@cache
def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """
    Return standard input and output, and replace both for the rest of the process.

    From now on, prints, logs and child processes write to standard error.
    """
    streams = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return streams


class StdioServer:
    """
    Answers the messages of one client until its input ends, or until the process gets SIGTERM.

    ``server_info`` is MCP's Implementation. The revision of a legacy ``initialize`` holds for the
    messages that follow. The calls of ``session`` can ask the client.
    """

    def __init__(
        self,
        streams: tuple[BinaryIO, BinaryIO],
        handle: Handle,
        server_info: JSONObject,
        session: Session,
    ) -> None:
        self._input, self._output = streams
        self._handle_request = handle
        self._server_info, self._session = server_info, session
        self._revision = UNDECLARED
        self._loop = asyncio.get_running_loop()
        self._calls = asyncio.Semaphore(MOST_CALLS)
        self._waiting = asyncio.Semaphore(MOST_WAITING)
        self._tasks: set[asyncio.Task[None]] = set()
        self._by_id: dict[RequestId, asyncio.Task[Any] | None] = {}
        self._outbox: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()

    async def serve(self) -> None:
        """Answer messages; returns when all are answered after the end of input."""
        ended, main = asyncio.Event(), asyncio.current_task()
        assert main is not None
        self._loop.add_signal_handler(signal.SIGTERM, main.cancel)
        # Daemons, since a thread that reads or writes a pipe cannot be stopped.
        threading.Thread(target=self._read, args=(ended,), daemon=True).start()
        threading.Thread(target=self._write, daemon=True).start()
        try:
            await ended.wait()
            self._session.has_ended = True
            while self._tasks:
                await asyncio.wait(self._tasks)
        except asyncio.CancelledError:
            for task in self._tasks:
                task.cancel()
            while self._tasks:
                await places.shield_from_cancellation(asyncio.wait(self._tasks))

    def _read(self, ended: asyncio.Event) -> None:
        limit = conf.MAX_BODY_BYTES
        # The loop is closed after SIGTERM.
        with suppress(RuntimeError, CancelledError):
            while line := self._input.readline(limit + 1):
                end = line
                while end and not end.endswith(b"\n"):
                    end = self._input.readline(limit)
                # The input may end within a line, which is not a message then.
                if end and (end is not line or line.strip()):
                    accepted = self._accept(line if end is line else None)
                    asyncio.run_coroutine_threadsafe(accepted, self._loop).result()
            self._loop.call_soon_threadsafe(ended.set)

    def _write(self) -> None:
        with suppress(RuntimeError):
            while True:
                message, written = self._outbox.get()
                # An error if the client reads no more.
                with suppress(OSError):
                    while message:
                        message = message[self._output.write(message) or 0 :]
                self._loop.call_soon_threadsafe(_set_done, written)

    async def _accept(self, line: bytes | None) -> None:
        """Begin to answer a line, or one that is too long (None)."""
        await self._waiting.acquire()
        # Closed once or twice, it is left once.
        queue = ExitStack()
        queue.callback(self._waiting.release)
        self._begun = asyncio.Event()
        task = asyncio.create_task(self._answer(line, queue.close))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: queue.close())
        if line is not None and b'"initialize"' in line:
            # The revision of that request holds for the next line.
            begun = asyncio.create_task(self._begun.wait())
            await asyncio.wait([task, begun], return_when=asyncio.FIRST_COMPLETED)
            begun.cancel()

    async def _answer(self, line: bytes | None, leave: Callable[[], None]) -> None:
        if line is None:
            text = f"Parse error: a line has more than {conf.MAX_BODY_BYTES} bytes."
            await self._send(refuse(errors.ParseError(text)).body)
            return
        stream, task = LoopStream(frame=bytes), asyncio.current_task()
        stream.waiting = partial(self._waiting_aside, leave)  # type: ignore[method-assign]
        handle = partial(self._handle, stream=stream, task=task, begun=self._begun)
        info, revision = self._server_info, self._revision
        work = answer(line, handle, server_info=info, assumed=revision, take=self._session.take)
        reply = await stream.answer(work)
        if reply.events is None:
            await self._send(reply.body)
            return
        async with aclosing(reply.events) as messages:
            async for message in messages:
                await self._send(message)

    async def _handle(
        self,
        request: Request,
        *,
        stream: LoopStream,
        task: asyncio.Task[Any] | None,
        begun: asyncio.Event,
    ) -> Result:
        if request.method == "initialize":
            result = await self._handle_request(request, None)
            self._revision = negotiate(str(request.params.get("protocolVersion")))
            return result
        begun.set()
        if request.id is None:
            return await self._notify(request)
        if request.method not in NAMED_BY:
            return await self._handle_request(request, None)
        await places.on_loop()
        # A batch is answered as a whole.
        is_single = request.number is None
        if is_single:
            self._by_id[request.id] = task
        try:
            await self._calls.acquire()
            try:
                return await self._handle_request(request, stream if is_single else None)
            finally:
                # Perhaps in a thread.
                self._loop.call_soon_threadsafe(self._calls.release)
        finally:
            if self._by_id.get(request.id) is task:
                del self._by_id[request.id]

    @asynccontextmanager
    async def _waiting_aside(self, leave: Callable[[], None]) -> AsyncIterator[None]:
        """Let other calls run, and the reply be read, while a call waits for the client."""
        self._loop.call_soon_threadsafe(leave)
        self._loop.call_soon_threadsafe(self._calls.release)
        try:
            yield
        finally:
            await places.on_loop()
            await places.shield_from_cancellation(self._calls.acquire())

    async def _notify(self, request: Request) -> Result:
        if request.method == "notifications/cancelled":
            self._cancel(request.params.get("requestId"))
        # A notification is never answered.
        with suppress(errors.ProtocolError):
            await self._handle_request(request, None)
        return {}

    def _cancel(self, request_id: object) -> None:
        task = self._by_id.get(request_id) if isinstance(request_id, str | int) else None
        if task is not None:
            task.cancel()

    async def _send(self, message: bytes | None) -> None:
        """Write a message, and wait until the client has read it or has gone."""
        if message:
            written = self._loop.create_future()
            self._outbox.put((message + b"\n", written))
            await written


def _set_done(written: asyncio.Future[None]) -> None:
    if not written.done():
        written.set_result(None)
