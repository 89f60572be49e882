"""
Running a tool: on the caller's thread, or on its event loop.

A call is all or nothing: a tool that acts runs in a transaction, and in a savepoint of every one
that is open, so that what it wrote goes with its error while the rest of the request stays.
``arun`` needs a thread for a coroutine function only to begin and end that, and for a result that
is still to be read from the database.
What a generator yields is collected here, where its errors are still those of the tool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack, suppress
from types import AsyncGeneratorType, GeneratorType
from typing import Any, TypeVar

from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DEFAULT_DB_ALIAS, connections, transaction

from mcp_bridge.features.tools import ToolCall

T = TypeVar("T")
Finish = Callable[[ToolCall, Any], bytes]


class ToolExit(Exception):
    """A tool raised what ends more than the tool; the cause says what."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(f"The tool raised {raised!r}.")


class ClientDisconnected(asyncio.CancelledError):
    """The client has gone, but a thread cannot be stopped: ``task`` has what it came to."""

    def __init__(self, task: asyncio.Future[Any]) -> None:
        super().__init__()
        self.task = task


def run(call: ToolCall, finish: Finish) -> bytes:
    """
    The result of the tool, which ``finish`` makes of what it returned.

    Raises what either of them raises, TransactionManagementError where the tool went on after an
    error of the database, and ToolExit for SystemExit, StopIteration and its own CancelledError.
    """
    begun = {each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block}
    aliases = begun | _wanted(call)
    if not aliases:
        return finish(call, _value(call))
    with _opened(aliases):
        written = finish(call, _value(call))
        _settle(aliases)
        return written


async def arun(call: ToolCall, finish: Finish) -> bytes:
    """
    The same; a coroutine function is awaited here, anything else has a thread of its own.

    Raises ClientDisconnected for a call whose client has gone and that ran to its end all the same.
    """
    if not call.tool.is_async:
        return await run_to_completion(sync_to_async(run)(call, finish))
    aliases = _wanted(call)
    if not aliases:
        return await _awritten(call, finish)
    stack = await _aopened(aliases)
    try:
        written = await _awritten(call, finish)
        await sync_to_async(_settle)(aliases)
    except BaseException as raised:
        undo = sync_to_async(stack.__exit__)
        await shield_from_cancellation(undo(type(raised), raised, raised.__traceback__))
        raise
    return await run_to_completion(_closed(stack, written))


async def _closed(stack: ExitStack, written: bytes) -> bytes:
    await sync_to_async(stack.close)()
    return written


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """What a thread comes to. Raises ClientDisconnected where its client has gone."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError as gone:
        if task.cancelled():
            raise ToolExit(gone) from gone
        with suppress(Exception):
            await shield_from_cancellation(task)
        raise ClientDisconnected(task) from None


async def shield_from_cancellation(work: Awaitable[T]) -> T:
    """What a thread comes to, however often its client goes: a server may cancel twice."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()


async def _awritten(call: ToolCall, finish: Finish) -> bytes:
    value = await _awaited(call)
    if isinstance(value, Iterator):
        # It can be read only once, and may read from the database.
        return await sync_to_async(finish)(call, value)
    try:
        return finish(call, value)
    except Exception as exception:
        if not _is_for_a_thread(exception):
            raise
    return await sync_to_async(finish)(call, value)


def _is_for_a_thread(raised: BaseException | None) -> bool:
    """Whether this came of reading from the database on the event loop: a queryset, a relation."""
    while raised is not None and not isinstance(raised, SynchronousOnlyOperation):
        raised = raised.__cause__ or raised.__context__
    return raised is not None


def _value(call: ToolCall) -> Any:
    if call.tool.is_async:
        return async_to_sync(_awaited)(call)
    try:
        value = call.tool.invoke(call)
        if isinstance(value, GeneratorType):
            return list(value)
        if isinstance(value, AsyncGeneratorType):
            return async_to_sync(_collected)(value)
        return value
    except (SystemExit, StopIteration, asyncio.CancelledError) as exit_:
        # None may leave a thread: the process would end, or the event loop hang.
        raise ToolExit(exit_) from exit_


async def _awaited(call: ToolCall) -> Any:
    try:
        value = await call.tool.invoke(call)
        return await _collected(value) if isinstance(value, AsyncGeneratorType) else value
    except SystemExit as exit_:
        raise ToolExit(exit_) from exit_
    except asyncio.CancelledError as exit_:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # Somebody cancels the call itself: its client is gone.
            raise
        raise ToolExit(exit_) from exit_


async def _collected(values: AsyncGeneratorType[Any, None]) -> list[Any]:
    try:
        return [each async for each in values]
    except SystemExit as exit_:
        raise ToolExit(exit_) from exit_


def _opened(aliases: Iterable[str]) -> ExitStack:
    """Transactions in these databases, or savepoints, until the stack is closed."""
    with ExitStack() as stack:
        for alias in sorted(aliases):
            stack.enter_context(transaction.atomic(using=alias))
        return stack.pop_all()


def _settle(aliases: Iterable[str]) -> None:
    """
    Make sure that what is told as done will be so.

    Raises TransactionManagementError where a transaction cannot but be undone, though the tool
    returned. What on_commit() has called cannot fail the call any more: Django logs its errors.
    """
    if any(transaction.get_rollback(using=alias) for alias in aliases):
        raise transaction.TransactionManagementError(
            "The tool went on after an error of the database, which has undone all that it wrote: "
            "what may fail belongs in a transaction.atomic() of its own, or the tool under "
            "transaction.non_atomic_requests()."
        )
    for connection in (connections[alias] for alias in aliases):
        # In a savepoint the hooks are those of somebody else's transaction as well.
        if not connection.savepoint_ids:
            hooks: list[Any] = connection.run_on_commit
            hooks[:] = [(*hook[:2], True) for hook in hooks]


async def _aopened(aliases: Iterable[str]) -> ExitStack:
    """
    The same, in the thread in which a coroutine's queries run.

    It is one for each request (asgiref's ThreadSensitiveContext), so that nobody else is in there.
    """
    opening = asyncio.ensure_future(sync_to_async(_opened)(aliases))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        # The thread goes on all the same.
        await shield_from_cancellation(
            sync_to_async((await shield_from_cancellation(opening)).close)()
        )
        raise


def _wanted(call: ToolCall) -> set[str]:
    """
    The databases in which the call has a transaction of its own.

    The default one for whatever acts; all for what may ask its client, since what was written
    before the question is undone. ATOMIC_REQUESTS is a wish as well: the endpoint's views are in
    no transaction.
    """
    tool = call.tool
    wanted = {alias for alias, each in connections.settings.items() if each["ATOMIC_REQUESTS"]}
    if not tool.annotations.get("readOnlyHint", False):
        wanted.add(DEFAULT_DB_ALIAS)
    if tool.may_elicit and call.context.client_capabilities:
        wanted.update(connections)
    wanted -= tool.non_atomic
    return {alias for alias in wanted if connections[alias].vendor != "unknown"}
