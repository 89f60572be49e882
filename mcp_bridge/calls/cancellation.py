"""Work that a thread must finish although its client has disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class ClientDisconnected(asyncio.CancelledError):
    """The client has disconnected while a thread worked: ``task`` holds how that ended."""

    def __init__(self, task: asyncio.Future[Any]) -> None:
        super().__init__()
        self.task = task


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """
    Return what a thread returns, since no thread can be stopped.

    Raises ClientDisconnected, after the thread has ended, where the client has gone meanwhile; and
    RuntimeError where the work itself raised CancelledError.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError as raised:
        if task.cancelled():
            raise RuntimeError("The work was cancelled from inside.") from raised
        with suppress(Exception):
            await shield_from_cancellation(task)
        raise ClientDisconnected(task) from None


async def shield_from_cancellation(work: Awaitable[T]) -> T:
    """Return what the work returns, however often it is cancelled: a server may cancel twice."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()
