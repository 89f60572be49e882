"""
Running a tool: on the caller's thread, or on its event loop.

A tool runs in a savepoint of every transaction that is open, so that what it wrote goes with its
error while the rest of the request stays. ``arun`` needs no thread for a coroutine function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from asgiref.sync import async_to_sync, iscoroutinefunction, sync_to_async
from django.db import connections, transaction

from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.tools import ToolCall


class ToolExit(Exception):
    """A tool raised SystemExit, which must not end the process that serves it."""


def run(call: ToolCall) -> Any:
    """What the tool returns; raises what it raises, and ToolExit for SystemExit."""
    invoke: Callable[[ToolCall], Any] = call.tool.invoke
    if iscoroutinefunction(invoke):
        invoke = async_to_sync(_awaited)
    with _savepoints() as aliases, _surviving():
        value = invoke(call)
        if isinstance(value, CallToolResult) and value.is_error:
            for alias in aliases:
                transaction.set_rollback(True, using=alias)
        return value


async def arun(call: ToolCall) -> Any:
    """The same; a coroutine function is awaited here, anything else has a thread of its own."""
    if iscoroutinefunction(call.tool.invoke):
        return await _awaited(call)
    return await sync_to_async(run)(call)


async def _awaited(call: ToolCall) -> Any:
    with _surviving():
        return await call.tool.invoke(call)


@contextmanager
def _surviving() -> Iterator[None]:
    try:
        yield
    except SystemExit as exit_:
        raise ToolExit(f"The tool raised SystemExit({exit_.code!r}).") from exit_


@contextmanager
def _savepoints() -> Iterator[list[str]]:
    """
    A savepoint in every open transaction; yields their aliases.

    ATOMIC_REQUESTS counts as open: Django allows it no asynchronous view, so that the tool has its
    transaction here.
    """
    aliases = [
        connection.alias
        for connection in connections.all()
        if connection.in_atomic_block or connection.settings_dict["ATOMIC_REQUESTS"]
    ]
    with ExitStack() as stack:
        for alias in aliases:
            stack.enter_context(transaction.atomic(using=alias))
        yield aliases
