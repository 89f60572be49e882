"""
Run a tool in its transactions, in a thread or on an event loop, and encode its result.

A coroutine function needs the thread only to end its transactions, and for a result that is still
to be read from the database. A generator is read to its end here, where its errors are still those
of the tool.
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager, nullcontext
from functools import lru_cache, partial
from time import perf_counter
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Final, NamedTuple, TypeAlias

from asgiref.sync import async_to_sync
from django.core.exceptions import PermissionDenied, SynchronousOnlyOperation
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_bridge.calls.results import holds_iterator
from mcp_bridge.concurrency.places import in_thread, on_loop
from mcp_bridge.concurrency.threads import unused_thread
from mcp_bridge.conf import DOCUMENTATION, conf
from mcp_bridge.exceptions import InputRequired, ToolError, UnsendableResult
from mcp_bridge.features import Tool, ToolCall
from mcp_bridge.protocol import CallToolResult
from mcp_bridge.protocol.logs import get_logger

logger = get_logger("mcp_bridge.calls")

# Seconds for which a call may keep others from writing to SQLite before it is named in the log.
LONG: Final = 1.0


class ToolExit(Exception):
    """A tool raised an exception that would end more than the tool; the cause is that one."""


class Encoded(NamedTuple):
    """A result, and how many bytes of JSON it has."""

    result: CallToolResult
    size: int


# Given the size of a result that is no error, and the databases in which it is to be committed.
BeforeCommit: TypeAlias = Callable[[int, Sequence[str]], None]


async def run(call: ToolCall, before_commit: BeforeCommit) -> Encoded:
    """
    Run the tool and return its result, which can be sent.

    A coroutine function is awaited on an event loop; for any other, the caller is in a thread. A
    coroutine's transactions begin where it first uses that thread, so that one that waits for
    something else holds none. Calls ``before_commit`` in the call's transactions where it has some
    of its own. Raises what the tool raises (ToolExit for what would end more than the tool),
    UnsendableResult for a result that cannot be sent, ToolError for one that is too large, and
    TransactionManagementError where the tool went on after an error of the database.
    """
    databases = _databases(call.tool, bool(call.context.client.capabilities))
    if not call.tool.is_async:
        if not any(databases) and not any(map(is_in_transaction, connections.settings)):
            return encode_result(call, _returned(call, call.tool.invoke))
        transactions = CallTransactions(call.tool.name, *databases)
        with transactions:
            transactions.begin()
            result = encode_result(call, _returned(call, call.tool.invoke))
            transactions.settle(result, before_commit)
        return result
    if not any(databases):
        await on_loop()
        with unused_thread() or nullcontext():
            return await _result_of_coroutine(call)
    transactions = CallTransactions(call.tool.name, *databases)
    # In the thread of the coroutine's queries, which is one for each request (asgiref's
    # ThreadSensitiveContext), so that nobody else's queries are in there.
    try:
        await on_loop()
        unused = unused_thread(transactions.begin)
        if unused is None:
            await in_thread()
            transactions.begin()
            await on_loop()
        with unused or nullcontext():
            result = await _result_of_coroutine(call)
    except BaseException as raised:
        await in_thread()
        transactions.__exit__(type(raised), raised, raised.__traceback__)
        raise
    await in_thread()
    with transactions:
        transactions.settle(result, before_commit)
    return result


def encode_result(call: ToolCall, value: object) -> Encoded:
    """
    Return the CallToolResult of what a tool returned, written once so that it surely can be sent.

    Raises UnsendableResult where it cannot be, and ToolError where it is too large.
    """
    try:
        result = call.tool.encode(value)
        size = len(result.to_json(call.context.revision))
    except Exception as exception:
        raise UnsendableResult from exception
    if size > conf.MAX_RESULT_BYTES:
        raise ToolError(
            f"The result of {call.tool.name} has {size} bytes, more than the "
            f"{conf.MAX_RESULT_BYTES} that can be sent. Ask for less: narrow the filters, or fetch "
            "it in parts."
        )
    return Encoded(result, size)


async def _result_of_coroutine(call: ToolCall) -> Encoded:
    value = await _awaited(call.tool.invoke(call))
    # An iterator can be read only once, and may read from the database.
    if not holds_iterator(value):
        try:
            return encode_result(call, value)
        except Exception as exception:
            # A queryset or a relation that is read on the event loop is read again in a thread.
            cause: BaseException | None = exception
            while cause is not None and not isinstance(cause, SynchronousOnlyOperation):
                cause = cause.__cause__ or cause.__context__
            if cause is None:
                raise
    await in_thread()
    return encode_result(call, value)


def run_precheck(call: ToolCall, check: Callable[[ToolCall], Any]) -> None:
    """
    Ask the tool's precheck whether the call may be made, and undo what that wrote.

    Raises what it raises, and PermissionDenied where it returns False.
    """
    with CallTransactions(call.tool.name, *_databases(call.tool, False)) as transactions:
        transactions.begin()
        try:
            allowed = _returned(call, check)
        except InputRequired as asked:
            raise TypeError("A precheck cannot ask the client.") from asked
        if allowed is False:
            raise PermissionDenied
        transactions.undo()


def _returned(call: ToolCall, invoke: Callable[[ToolCall], Any]) -> Any:
    try:
        value = invoke(call)
        if isinstance(value, CoroutineType | AsyncGeneratorType):
            return async_to_sync(_awaited)(value)
        return list(value) if isinstance(value, GeneratorType) else value
    except BaseException as raised:
        if not _ends_more(raised):
            raise
        raise ToolExit(f"The tool raised {raised!r}.") from raised


def _ends_more(raised: BaseException) -> bool:
    """Return whether what a tool has raised would end its thread's process, or hold its request."""
    if isinstance(raised, KeyboardInterrupt):
        # In the main thread somebody may have interrupted a command.
        return threading.current_thread() is not threading.main_thread()
    return isinstance(raised, StopIteration) or not isinstance(raised, Exception | InputRequired)


async def _awaited(value: Any) -> Any:
    """Return what a coroutine returns, or all that an asynchronous generator yields."""
    try:
        if not isinstance(value, AsyncGeneratorType):
            value = await value
        if isinstance(value, AsyncGeneratorType):
            value = [each async for each in value]
        return value
    except BaseException as raised:
        if isinstance(raised, Exception | InputRequired) or _ends_call(raised):
            raise
        # The event loop would end, and the server with it, or at least this request.
        raise ToolExit(f"The tool raised {raised!r}.") from raised


def _ends_call(raised: BaseException) -> bool:
    """Return whether it is the call itself that is cancelled or closed, and not the tool's own."""
    if isinstance(raised, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and bool(task.cancelling())
    # What Python raises in a coroutine that it closes comes from no frame further down.
    traceback = raised.__traceback__
    return isinstance(raised, GeneratorExit) and (traceback is None or traceback.tb_next is None)


def is_sqlite_file(connection: BaseDatabaseWrapper) -> bool:
    """Return whether a database is one of SQLite in a file."""
    in_memory = re.search(":memory:|mode=memory", str(connection.settings_dict["NAME"]))
    return connection.vendor == "sqlite" and not in_memory


def begins_with_lock(connection: BaseDatabaseWrapper) -> bool:
    """Return whether transactions of SQLite take the lock for writing when they begin."""
    mode = str(connection.settings_dict["OPTIONS"].get("transaction_mode"))
    return mode.upper() in ("IMMEDIATE", "EXCLUSIVE")


def is_in_transaction(alias: str) -> bool:
    """Return whether a transaction is open in this thread, or this task on an event loop."""
    # ``connections[alias]`` would make a connection where there is none, in each task anew.
    made = getattr(connections._connections, alias, None)  # type: ignore[attr-defined]
    return made is not None and made.in_atomic_block


@lru_cache(maxsize=4096)
def _databases(tool: Tool, may_ask: bool) -> tuple[frozenset[str], frozenset[str]]:
    """Return where calls have transactions of their own: at once, and from a first query."""
    configured = {
        alias: each
        for alias, each in connections.settings.items()
        if each["ENGINE"] != "django.db.backends.dummy" and alias not in tool.non_atomic
    }
    at_once = {alias for alias, each in configured.items() if each["ATOMIC_REQUESTS"]}
    if not tool.is_read_only:
        at_once |= {DEFAULT_DB_ALIAS} & configured.keys()
    later = configured.keys() - at_once if tool.may_elicit and may_ask else ()
    return frozenset(at_once), frozenset(later)


@contextmanager
def _sqlite_transaction(tool: str, connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Open a transaction of SQLite, and log a tool that keeps its one lock for writing for long."""
    began, changes = math.inf, 0
    try:
        with transaction.atomic(using=connection.alias):
            # Not before: to wait for the lock is not to hold it.
            began, changes = perf_counter(), connection.connection.total_changes
            yield
    finally:
        seconds, session = perf_counter() - began, connection.connection
        if (
            seconds >= LONG
            and is_sqlite_file(connection)
            and (session is None or session.total_changes > changes or begins_with_lock(connection))
        ):
            logger.warning(
                "The tool %r has kept the SQLite database %r locked for %.1f s, in which nobody "
                "else could write: put it under transaction.non_atomic_requests and have it write "
                "in short transactions of its own (%stools/define/)",
                *(tool, connection.alias, seconds, DOCUMENTATION),
            )


class CallTransactions(ExitStack):
    """
    Transactions around a call, or savepoints where a transaction is open.

    All that the call wrote is committed with its result, or nothing is. They are in the default
    database for a tool that is not read-only, in those with ATOMIC_REQUESTS (the endpoint's views
    are in no transaction), and in every one that is in a transaction already. A tool that may ask
    its client has one in each other database from its first query there on, since what was written
    before the question has to be undone. The databases of ``Tool.non_atomic`` have none. Begin and
    exit them in the thread of the tool's queries.
    """

    def __init__(self, tool: str, at_once: Set[str], later: Set[str]) -> None:
        super().__init__()
        self._tool = tool
        self._at_once = at_once
        self._on_first_query = set(later)
        # The errors because of which the database could only roll back already.
        self._raised_before: dict[str, BaseException | None] = {}

    def begin(self) -> None:
        """Begin those that do not wait for a first query."""
        open_now = {
            each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block
        }
        for alias in sorted(self._at_once | open_now):
            self._begin_in(alias)
        for alias in self._on_first_query - open_now:
            self.enter_context(connections[alias].execute_wrapper(partial(self._used, alias)))

    def _begin_in(self, alias: str) -> None:
        connection = connections[alias]
        if connection.vendor == "sqlite" and not connection.in_atomic_block:
            self.enter_context(_sqlite_transaction(self._tool, connection))
        else:
            self.enter_context(transaction.atomic(using=alias))
        self._raised_before[alias] = getattr(connection, "rollback_exc", None)

    def _used(self, alias: str, execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        """Begin the transaction at a first query (Django, "Database instrumentation")."""
        # A transaction that the tool itself begins is undone by a question that leaves it.
        is_own = connections[alias].in_atomic_block or sql.startswith("BEGIN")
        if alias in self._on_first_query and not is_own:
            self._on_first_query.discard(alias)
            self._begin_in(alias)
        return execute(sql, *rest)

    def settle(self, encoded: Encoded, before_commit: BeforeCommit) -> None:
        """
        Decide what becomes of the transactions of a call that returned a result.

        Calls ``before_commit`` with the databases in which they are committed now, if any: a
        savepoint is not. An error result undoes what the tool wrote. Raises
        TransactionManagementError where an error of the database, which the tool has not passed on,
        has undone it.
        """
        committed = []
        for alias, before in self._raised_before.items():
            connection = connections[alias]
            raised = getattr(connection, "rollback_exc", None)
            if encoded.result.is_error:
                transaction.set_rollback(True, using=alias)
            elif connection.needs_rollback and raised not in (None, before):
                raise transaction.TransactionManagementError(
                    "The tool went on after an error of the database, which has undone all that it "
                    "wrote: what may fail belongs in a transaction.atomic() of its own, or the "
                    "tool under transaction.non_atomic_requests()."
                )
            elif not connection.savepoint_ids:
                # What on_commit() calls cannot fail a call that is committed: Django logs its
                # errors. In a savepoint the hooks are those of an outer transaction as well.
                hooks: list[Any] = connection.run_on_commit
                hooks[:] = [(*hook[:2], True) for hook in hooks]
                # The tool itself may have had it rolled back.
                if not connection.needs_rollback:
                    committed.append(alias)
        if committed:
            before_commit(encoded.size, committed)

    def undo(self) -> None:
        """Have them roll back."""
        for alias in self._raised_before:
            transaction.set_rollback(True, using=alias)
