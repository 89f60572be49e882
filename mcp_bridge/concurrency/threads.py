"""The thread of a request under ASGI, as asgiref's ``sync_to_async`` knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, Final, TypeVar

from asgiref.sync import AsyncToSync, SyncToAsync, ThreadSensitiveContext
from django.db import close_old_connections

T = TypeVar("T")

# For how long a coroutine that waits keeps connections that it has not used, in seconds: to make
# new ones takes longer than most calls.
HELD: Final = 0.1


class UnusedThread(Executor):
    """
    The thread of a request while a coroutine runs on the event loop, as ``sync_to_async`` sees it.

    Where the coroutine first uses it, ``begin`` runs there before that, and what that raises is
    raised in its place. Where the coroutine waits for long before it does, the connections to
    databases that the request has used are closed by CONN_MAX_AGE. A context manager, to be entered
    on the event loop.
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
        # Perhaps in the thread, where no timer may be cancelled.
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
    Return the thread of this request to be used late.

    None where it is not known by itself, or has neither anything to begin nor to let go.
    """
    found = _executor()
    if found is None or begin is None and getattr(found[0], "is_fresh", False):
        return None
    return UnusedThread(*found, begin)


def thread_of_request() -> Callable[[Callable[[], None]], Awaitable[None]] | None:
    """Return what runs a function in the thread of this request; None where asgiref has to."""
    thread, _ = _executor() or (None, None)
    return getattr(thread, "run", None)


def _executor() -> tuple[Executor, ThreadSensitiveContext] | None:
    """Return asgiref's executor of this request with its context, if there is one already."""
    context = SyncToAsync.thread_sensitive_context.get(None)
    # A thread that waits for this coroutine comes first.
    if context is None or getattr(AsyncToSync.executors, "current", None):
        return None
    thread = SyncToAsync.context_to_thread_executor.get(context)
    return None if thread is None else (thread, context)
