"""The thread of a request under ASGI, as used by asgiref's ``sync_to_async``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, Final, TypeVar

from asgiref.sync import AsyncToSync, SyncToAsync, ThreadSensitiveContext, _restore_context
from django.db import close_old_connections, connections

T = TypeVar("T")

# Starts a thread only if all others are busy: as many as the server has for requests.
_pool: Final = ThreadPoolExecutor(max_workers=1000, thread_name_prefix="mcp_bridge")
# Seconds an idle coroutine keeps unused connections; reconnecting costs more than most calls.
HELD: Final = 0.1


class UnusedThread(Executor):
    """
    The thread of a request while a coroutine runs on the event loop, as ``sync_to_async`` sees it.

    Before its first use by the coroutine, ``begin`` runs in it; exceptions of ``begin`` are raised
    from that use. If the coroutine does not use it within HELD seconds, the request's database
    connections are closed as CONN_MAX_AGE requires. A context manager; enter it on the event loop.
    """

    def __init__(
        self, thread: Executor, context: ThreadSensitiveContext, begin: Callable[[], object] | None
    ) -> None:
        self._thread, self._context, self._begin = thread, context, begin
        self._is_used = False

    def __enter__(self) -> UnusedThread:
        SyncToAsync.context_to_thread_executor[self._context] = self
        asyncio.get_running_loop().call_later(HELD, self._let_go)
        return self

    def __exit__(self, *raised: object) -> None:
        # Perhaps in the thread, where timers cannot be cancelled.
        self._is_used = True
        SyncToAsync.context_to_thread_executor[self._context] = self._thread

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        self._is_used = True
        return self._thread.submit(self._run, partial(function, *args, **kwargs))

    def _run(self, function: Callable[[], T]) -> T:
        if self._begin is not None:
            self._begin()
            self._begin = None
        return function()

    def _let_go(self) -> None:
        if not self._is_used:
            self._thread.submit(close_old_connections)


def unused_thread(begin: Callable[[], object] | None = None) -> UnusedThread | None:
    """
    Return the thread of this request for lazy use.

    None if asgiref does not have one for it, or if there is nothing to begin or to close.
    """
    found = _executor()
    if found is None or begin is None and getattr(found[0], "is_fresh", False):
        return None
    return UnusedThread(*found, begin)


def in_pool(function: Callable[[], object]) -> None:
    """Run a function in a thread of a pool, with the context variables of this one."""
    context = copy_context()

    def run() -> None:
        _restore_context(context)
        function()

    _pool.submit(context.run, run)


@contextmanager
def own_thread() -> Iterator[None]:
    """Give this task's thread-sensitive code a separate thread, with its own connections."""
    context, thread = ThreadSensitiveContext(), ThreadPoolExecutor(max_workers=1)
    AsyncToSync.executors.current = None
    SyncToAsync.thread_sensitive_context.set(context)
    SyncToAsync.context_to_thread_executor[context] = thread
    try:
        yield
    finally:
        release_thread()


def release_thread() -> None:
    """End the request's thread and its connections; code that needs a thread later has another."""
    if found := _executor():
        thread, context = found
        thread.submit(connections.close_all)
        thread.shutdown(wait=False)
        SyncToAsync.context_to_thread_executor.pop(context, None)


def thread_of_request() -> Callable[[Callable[[], None]], Awaitable[None]] | None:
    """Return a function that runs code in this request's thread; None if asgiref must do it."""
    thread, _ = _executor() or (None, None)
    return getattr(thread, "run", None)


def _executor() -> tuple[Executor, ThreadSensitiveContext] | None:
    """Return asgiref's executor of this request and its context, if it exists already."""
    context = SyncToAsync.thread_sensitive_context.get(None)
    # A thread that waits for this coroutine takes precedence.
    if context is None or getattr(AsyncToSync.executors, "current", None):
        return None
    thread = SyncToAsync.context_to_thread_executor.get(context)
    return None if thread is None else (thread, context)
