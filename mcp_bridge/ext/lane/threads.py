"""The request threads of the direct lane, each of which serves one request after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Token, copy_context
from functools import partial
from time import monotonic as now
from typing import Any, Final, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, _restore_context
from django.conf import settings
from django.core.cache import caches, close_caches
from django.core.cache.backends.base import BaseCache
from django.db import close_old_connections, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.module_loading import import_string

T = TypeVar("T")

# Idle threads to keep, each with its database connections.
MOST_IDLE: Final = 32


class RequestThread(ThreadPoolExecutor):
    """A thread that serves one request after another and maintains its connections."""

    # asgiref's context of the current request, and the token to reset it.
    lent: tuple[ThreadSensitiveContext, Token[ThreadSensitiveContext]]

    def __init__(self) -> None:
        super().__init__(max_workers=1, thread_name_prefix="mcp_bridge")
        # The numbers of submitted and completed functions.
        self._given = self._done = 0
        self.is_fresh = True
        self.has_ended = self._must_end = False

    def shutdown(self, *how: Any, **options: Any) -> None:
        self.has_ended = True
        super().shutdown(*how, **options)

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        self._given += 1
        return super().submit(self._run, partial(function, *args, **kwargs))

    async def run(self, function: Callable[[], None]) -> None:
        """
        Run a function that never raises, like asgiref's ``sync_to_async`` at half the cost.

        If this is cancelled, it does not wait for the function, whose coroutines are cancelled too.
        """
        loop, context = asyncio.get_running_loop(), copy_context()
        tasks: list[asyncio.Task[Any]] = []
        ended = loop.create_future()

        def run() -> None:
            _restore_context(context)
            function()

        def then(error: BaseException | None) -> None:
            loop.call_soon_threadsafe(_end_waiting, ended, error)

        self._given += 1
        handle = partial(_HANDLER.thread_handler, loop, _NO_ERROR, tasks, context.run, run)
        super().submit(self._run, handle, then)
        try:
            await ended
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            raise
        finally:
            _restore_context(context)

    def _run(
        self,
        function: Callable[[], T],
        then: Callable[[BaseException | None], object] | None = None,
    ) -> T:
        error: BaseException | None = None
        try:
            if self.is_fresh:
                self.is_fresh = False
                # As Django does at the start of a request.
                for each in _connections():
                    each.queries_log.clear()
                    each.close_if_unusable_or_obsolete()
            return function()
        except BaseException as raised:
            error = raised
            raise
        finally:
            # By CONN_MAX_AGE; connections that expire later are closed by the next request.
            self._must_end = any(
                each.connection is not None and each.close_at is not None and each.close_at <= now()
                for each in _connections()
            )
            # Before the waiter is notified, since the next request may then use the thread.
            self._done += 1
            if then is not None:
                then(error)

    def end_request(self, closes_caches: bool) -> bool:
        """End the request in the thread. Returns False if part of the request is still running."""
        is_idle = self._given == self._done
        if self._must_end or closes_caches and any(caches.all(initialized_only=True)):
            super().submit(copy_context().run, _end)
        self.is_fresh = True
        return is_idle


class RequestThreads:
    """
    A pool of request threads: each request has its own, which starts on first use.

    Django creates a thread for each request under ASGI, and with it new database connections.
    """

    def __init__(self) -> None:
        self._idle: list[RequestThread] = []
        backends = [import_string(str(each["BACKEND"])) for each in settings.CACHES.values()]
        # memcached backends have connections, most others do not.
        self._closes_caches = any(each.close is not BaseCache.close for each in backends)

    def lend(self) -> RequestThread:
        """Assign a thread to this task's thread-sensitive code (asgiref's ``sync_to_async``)."""
        thread = self._idle.pop() if self._idle else RequestThread()
        context = ThreadSensitiveContext()
        thread.lent = context, SyncToAsync.thread_sensitive_context.set(context)
        # Not through ThreadSensitiveContext itself: asgiref would then refuse thread calls of tasks
        # that a tool started and did not await, after the response.
        SyncToAsync.context_to_thread_executor[context] = thread
        return thread

    def take_back(self, thread: RequestThread) -> None:
        """End the request that uses a thread."""
        context, token = thread.lent
        SyncToAsync.context_to_thread_executor.pop(context, None)
        SyncToAsync.thread_sensitive_context.reset(token)
        if thread.has_ended:
            # A subscription has given it back.
            return
        if thread.end_request(self._closes_caches) and len(self._idle) < MOST_IDLE:
            self._idle.append(thread)
        else:
            _stop(thread)

    def stop(self) -> None:
        """End the idle threads and their database connections."""
        while self._idle:
            _stop(self._idle.pop())


def _connections() -> list[BaseDatabaseWrapper]:
    """Return the connections of this thread, at a quarter of the cost of ``connections.all()``."""
    made: Any = connections._connections  # type: ignore[attr-defined]
    found = (getattr(made, alias, None) for alias in connections.settings)
    return [each for each in found if each is not None]


def _end_waiting(ended: asyncio.Future[None], error: BaseException | None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)


def _end() -> None:
    close_old_connections()
    close_caches()


def _stop(thread: RequestThread) -> None:
    thread.submit(connections.close_all)
    thread.shutdown(wait=False)


# asgiref's wrapper of functions in threads, so that ``async_to_sync`` finds its event loop.
_HANDLER: Final = SyncToAsync(_end)
_NO_ERROR: Final = (None, None, None)
