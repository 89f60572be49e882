"""
Running a tool: on the caller's thread, or on its event loop.

A tool runs in a savepoint of every transaction that is open, so that what it wrote goes with its
error while the rest of the request stays. ``arun`` needs no thread for a coroutine function, but
for a result that is still to be read from the database.
What a generator yields is collected here, where its errors are still those of the tool.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections, transaction

from mcp_bridge.tools import ToolCall

Finish = Callable[[ToolCall, Any], bytes]


class ToolExit(Exception):
    """A tool raised what ends more than the tool; the cause says what."""

    def __init__(self, raised: SystemExit | StopIteration) -> None:
        super().__init__(f"The tool raised {raised!r}.")


def run(call: ToolCall, finish: Finish) -> bytes:
    """
    The result of the tool, which ``finish`` makes of what it returned.

    Raises what either of them raises, and ToolExit for SystemExit and StopIteration.
    """
    with ExitStack() as stack:
        for alias in _transactions(call):
            stack.enter_context(transaction.atomic(using=alias))
        return finish(call, _value(call))


async def arun(call: ToolCall, finish: Finish) -> bytes:
    """The same; a coroutine function is awaited here, anything else has a thread of its own."""
    if not call.tool.is_async:
        return await sync_to_async(run)(call, finish)
    value = await _awaited(call)
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
    except (SystemExit, StopIteration) as exit_:
        # Neither may leave a thread: one would end the process, the other hold the event loop.
        raise ToolExit(exit_) from exit_


async def _awaited(call: ToolCall) -> Any:
    try:
        value = await call.tool.invoke(call)
    except SystemExit as exit_:
        raise ToolExit(exit_) from exit_
    return await _collected(value) if isinstance(value, AsyncGeneratorType) else value


async def _collected(values: AsyncGeneratorType[Any, None]) -> list[Any]:
    try:
        return [each async for each in values]
    except SystemExit as exit_:
        raise ToolExit(exit_) from exit_


def _transactions(call: ToolCall) -> list[str]:
    """
    The databases in which the call has a savepoint, or a transaction of its own.

    That of a tool that may ask its client undoes what was written before the question.
    """
    found = _open_transactions()
    if call.tool.may_ask and call.context.client_capabilities:
        found += [each for each in connections if connections[each].vendor != "unknown"]
    return sorted({*found})


def _open_transactions() -> list[str]:
    """
    The databases with an open transaction.

    ATOMIC_REQUESTS counts as one: the endpoint's views are not in it, so that the tool has its
    transaction here.
    """
    begun = {each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block}
    configured = connections.settings.items()
    return sorted(begun | {alias for alias, each in configured if each["ATOMIC_REQUESTS"]})
