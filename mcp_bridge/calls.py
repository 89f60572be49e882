"""
Running a tool: on the caller's thread, or on its event loop.

A tool runs in a savepoint of every transaction that is open, so that what it wrote goes with its
error while the rest of the request stays. ``arun`` needs no thread for a coroutine function.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction

from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.tools import ToolCall


class ToolExit(Exception):
    """A tool raised SystemExit, which must not end the process that serves it."""

    def __init__(self, raised: SystemExit) -> None:
        super().__init__(f"The tool raised SystemExit({raised.code!r}).")


def run(call: ToolCall) -> Any:
    """What the tool returns; raises what it raises, and ToolExit for SystemExit."""
    aliases = _open_transactions()
    return _run_in_savepoints(call, aliases) if aliases else _run(call)


async def arun(call: ToolCall) -> Any:
    """The same; a coroutine function is awaited here, anything else has a thread of its own."""
    if not call.tool.is_async:
        return await sync_to_async(run)(call)
    try:
        return await call.tool.invoke(call)
    except SystemExit as exit_:
        raise ToolExit(exit_) from exit_


def _run(call: ToolCall) -> Any:
    if call.tool.is_async:
        return async_to_sync(arun)(call)
    try:
        return call.tool.invoke(call)
    except SystemExit as exit_:
        raise ToolExit(exit_) from exit_


def _run_in_savepoints(call: ToolCall, aliases: list[str]) -> Any:
    with ExitStack() as stack:
        for alias in aliases:
            stack.enter_context(transaction.atomic(using=alias))
        value = _run(call)
        if isinstance(value, CallToolResult) and value.is_error:
            for alias in aliases:
                transaction.set_rollback(True, using=alias)
        return value


def _open_transactions() -> list[str]:
    """
    The databases with an open transaction.

    ATOMIC_REQUESTS counts as one: Django allows it no asynchronous view, so that the tool has its
    transaction here.
    """
    return [
        connection.alias
        for connection in connections.all()
        if connection.in_atomic_block or connection.settings_dict["ATOMIC_REQUESTS"]
    ]
