"""
Run a tool in its transactions, in a thread or on an event loop, and encode its result.

A coroutine function needs the thread only to end its transactions and to read a result that is
still lazy, such as a queryset. Generators are exhausted here, so that their errors count as errors
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
from time import monotonic, perf_counter
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from asgiref.sync import async_to_sync
from django.core.exceptions import PermissionDenied, SynchronousOnlyOperation
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_bridge.calls.interceptors import change_result, having
from mcp_bridge.calls.results import holds_iterator
from mcp_bridge.concurrency.places import here, in_thread, on_loop
from mcp_bridge.concurrency.threads import unused_thread
from mcp_bridge.conf import DOCUMENTATION, conf
from mcp_bridge.exceptions import (
    Cancelled,
    InputRequired,
    TimedOut,
    ToolError,
    UnsendableResult,
    causes,
)
from mcp_bridge.features import Feature, ToolCall
from mcp_bridge.protocol import CallToolResult
from mcp_bridge.protocol.logs import get_logger

if TYPE_CHECKING:
    from mcp_bridge.transports.streams import Stream

logger = get_logger("mcp_bridge.calls")

# The longest statement_timeout of PostgreSQL in milliseconds.
_LONGEST: Final = 2**31 - 1
# Seconds that a call may hold SQLite's write lock before a warning is logged.
LONG: Final = 1.0


class ToolExit(Exception):
    """Raised for a tool's exception, its cause, that would end more than the call."""


class Encoded(NamedTuple):
    """A result and its size in bytes of JSON."""

    result: CallToolResult
    size: int


class Running:
    """
    A tool that has started; ``context.progress`` and ``context.cancelled`` ask it, in any thread.

    ``stream`` receives its progress, if the client may want it. ``seconds`` is its time limit, or
    None.
    """

    __slots__ = ("_ends", "_part", "_stream", "has_ended", "raised", "seconds", "task")

    def __init__(self, stream: Stream | None, seconds: float | None) -> None:
        self._stream = stream
        self.seconds = seconds
        self._ends = None if seconds is None else monotonic() + seconds
        self._part = here.part
        # The task that awaits the tool, if that is a coroutine.
        self.task: asyncio.Task[Any] | None = None
        # The exception of ``report``, in case the tool goes on.
        self.raised: Cancelled | None = None
        self.has_ended = False

    @property
    def is_late(self) -> bool:
        """Whether its time limit has passed."""
        return self._ends is not None and monotonic() >= self._ends

    @property
    def is_over(self) -> bool:
        """Whether the client has gone, or the time limit has passed."""
        has_gone = self._part is not None and self._part.client_has_gone
        return has_gone or self.is_late or (self.task is not None and self.task.cancelling() > 0)

    def check(self) -> None:
        """Raise Cancelled or TimedOut if the call is over."""
        if self.is_over:
            self.raised = self.ending(Cancelled())
            raise self.raised

    def report(self, done: float, total: float | None, message: object) -> None:
        """Send progress. Raises Cancelled or TimedOut if the call is over."""
        for number in (done, 0 if total is None else total):
            if type(number) is bool or not isinstance(number, int | float):
                raise TypeError(f"progress({done!r}, {total!r}): give numbers.")
            if not math.isfinite(number):
                raise ValueError(f"progress({done!r}, {total!r}): give finite numbers.")
        if self.has_ended:
            return
        self.check()
        if self._stream is not None:
            text = str(message).encode("utf-8", "replace").decode()
            self._stream.report(done, total, text)

    def ending(self, raised: BaseException) -> Cancelled:
        """Return why the call ends. Raises ToolExit if the tool itself has cancelled it."""
        if self.is_late:
            return TimedOut()
        if self.is_over:
            return raised if isinstance(raised, Cancelled) else Cancelled()
        raise ToolExit(f"The tool raised {raised!r}.") from raised


# Called with the size of a successful result and the databases about to be committed.
BeforeCommit: TypeAlias = Callable[[int, Sequence[str]], None]


async def run(call: ToolCall, before_commit: BeforeCommit) -> Encoded:
    """
    Run the tool and return its encoded result.

    A coroutine function is awaited on an event loop; for any other, the caller is in a thread. A
    coroutine's transactions begin when it first uses that thread, so that a coroutine that waits
    for something else holds none. Calls ``before_commit`` inside the call's transactions, if any.
    Raises the tool's exceptions (ToolExit for one that would end more than the call), Cancelled or
    TimedOut if it must end early, UnsendableResult for a result that cannot be sent, ToolError for
    one that is too large, and TransactionManagementError if the tool continued after a database
    error.
    """
    seconds = call.tool.options.timeout
    if seconds is None and not getattr(call.context.stream, "is_task", False):
        seconds = conf.CALL_TIMEOUT
    running = call.context.__dict__["_running"] = Running(call.context.stream, seconds)
    databases = _databases(call.tool, bool(call.context.client.capabilities), seconds is not None)
    if not call.tool.is_async:
        if not any(databases) and not any(map(is_in_transaction, connections.settings)):
            return encode_result(call, _returned(call, call.tool.invoke, running))
        transactions = CallTransactions(call.tool.name, *databases, seconds)
        with transactions:
            transactions.begin()
            result = encode_result(call, _returned(call, call.tool.invoke, running))
            transactions.settle(result, before_commit)
        return result
    if not any(databases):
        await on_loop()
        with unused_thread() or nullcontext():
            return await _result_of_coroutine(call, running)
    transactions = CallTransactions(call.tool.name, *databases, seconds)
    # In the thread of the coroutine's queries. Each request has its own (asgiref's
    # ThreadSensitiveContext), so that it runs no queries of other requests.
    try:
        await on_loop()
        unused = unused_thread(transactions.begin)
        if unused is None:
            await in_thread()
            transactions.begin()
            await on_loop()
        with unused or nullcontext():
            result = await _result_of_coroutine(call, running)
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
    Return the CallToolResult of a tool's return value, serialised once to be sure it can be sent.

    Raises UnsendableResult if it cannot be sent, and ToolError if it is too large.
    """
    running: Running = call.context._running
    try:
        result = call.tool.encode(value)
        size = len(result.to_json(call.context.revision))
    except Exception as exception:
        # A lazy value may have reported progress.
        raise running.raised or UnsendableResult from exception
    # Later reports are ignored.
    running.has_ended = True
    if running.raised is not None:
        raise running.raised
    if having("result"):
        result = change_result(call, result)
        size = len(result.to_json(call.context.revision))
    if size > conf.MAX_RESULT_BYTES:
        raise ToolError(
            f"The result of {call.tool.name} has {size} bytes, more than the "
            f"{conf.MAX_RESULT_BYTES} that can be sent. Request less: narrow the filters, or fetch "
            "it in parts."
        )
    return Encoded(result, size)


async def _result_of_coroutine(call: ToolCall, running: Running) -> Encoded:
    value = await _awaited(call.tool.invoke(call), running)
    # An iterator can be read only once, and may query the database, as an interceptor may.
    if not (holds_iterator(value) or any(each.blocks for each in having("result"))):
        try:
            return encode_result(call, value)
        except Exception as exception:
            # A queryset or relation cannot be evaluated on the event loop: retry in a thread.
            found = causes(exception) if isinstance(exception, UnsendableResult) else ()
            if not any(isinstance(each, SynchronousOnlyOperation) for each in found):
                raise
    await in_thread()
    return encode_result(call, value)


def run_precheck(call: ToolCall, check: Callable[[ToolCall], Any]) -> None:
    """
    Run the tool's precheck and roll back its writes.

    Raises the precheck's exceptions, and PermissionDenied if it returns False.
    """
    with CallTransactions(call.tool.name, *_databases(call.tool, False, False)) as transactions:
        transactions.begin()
        try:
            allowed = _returned(call, check)
        except InputRequired as asked:
            raise TypeError("A precheck cannot request input from the client.") from asked
        if allowed is False:
            raise PermissionDenied
        transactions.undo()


def decided(call: ToolCall, function: Callable[[ToolCall], Any]) -> bool:
    """Return whether a function of the site is true for a call. Raises its exceptions."""
    try:
        return bool(_returned(call, function))
    except InputRequired as asked:
        raise TypeError("It cannot request input from the client.") from asked


def _returned(
    call: ToolCall, invoke: Callable[[ToolCall], Any], running: Running | None = None
) -> Any:
    try:
        value = invoke(call)
        if isinstance(value, CoroutineType | AsyncGeneratorType):
            return async_to_sync(_awaited)(value, running)
        return list(value) if isinstance(value, GeneratorType) else value
    except BaseException as raised:
        if running is not None and isinstance(raised, asyncio.CancelledError):
            raise running.ending(raised) from raised
        if not _ends_more(raised):
            raise
        raise ToolExit(f"The tool raised {raised!r}.") from raised


def _ends_more(raised: BaseException) -> bool:
    """Return whether a tool's exception would end the process or leave the request hanging."""
    if isinstance(raised, KeyboardInterrupt):
        # In the main thread, it may be a person who interrupts a command.
        return threading.current_thread() is not threading.main_thread()
    return isinstance(raised, StopIteration) or not isinstance(raised, Exception | InputRequired)


async def _awaited(value: Any, running: Running | None) -> Any:
    """
    Return a coroutine's result, or a list of the items of an asynchronous generator.

    Raises TimedOut after the time limit.
    """
    limit = None
    if running is not None:
        running.task = asyncio.current_task()
        if running.seconds is not None:
            limit = asyncio.timeout(running.seconds)
    try:
        if limit is None:
            return await _value_of(value)
        async with limit:
            return await _value_of(value)
    except BaseException as raised:
        if limit is not None and limit.expired() and isinstance(raised, TimeoutError):
            raise TimedOut from raised
        if running is not None and isinstance(raised, Cancelled):
            raise running.ending(raised) from raised
        if isinstance(raised, Exception | InputRequired) or _ends_call(raised):
            raise
        # It would stop the event loop and with it the server, or at least this request.
        raise ToolExit(f"The tool raised {raised!r}.") from raised


async def _value_of(value: Any) -> Any:
    if not isinstance(value, AsyncGeneratorType):
        value = await value
    if isinstance(value, AsyncGeneratorType):
        value = [each async for each in value]
    return value


def _ends_call(raised: BaseException) -> bool:
    """Return whether the exception cancels this call, rather than something the tool awaits."""
    if isinstance(raised, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and bool(task.cancelling())
    # When Python closes a coroutine, the exception's traceback does not have a deeper frame.
    traceback = raised.__traceback__
    return isinstance(raised, GeneratorExit) and (traceback is None or traceback.tb_next is None)


def is_sqlite_file(connection: BaseDatabaseWrapper) -> bool:
    """Return whether a database is an SQLite file."""
    in_memory = re.search(":memory:|mode=memory", str(connection.settings_dict["NAME"]))
    return connection.vendor == "sqlite" and not in_memory


def begins_with_lock(connection: BaseDatabaseWrapper) -> bool:
    """Return whether SQLite transactions acquire the write lock when they begin."""
    mode = str(connection.settings_dict["OPTIONS"].get("transaction_mode"))
    return mode.upper() in ("IMMEDIATE", "EXCLUSIVE")


def is_in_transaction(alias: str) -> bool:
    """Return whether a transaction is open in this thread, or in this task on an event loop."""
    # ``connections[alias]`` would create a missing connection, once for each task.
    made = getattr(connections._connections, alias, None)  # type: ignore[attr-defined]
    return made is not None and made.in_atomic_block


@lru_cache(maxsize=4096)
def _databases(
    tool: Feature, may_ask: bool, is_limited: bool
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the databases with a transaction per call: from the start, and from a first query."""
    if tool.options.task:
        # For minutes it would hold SQLite's lock, and hide what the tool has done so far.
        return frozenset(), frozenset()
    configured = {
        alias: each
        for alias, each in connections.settings.items()
        if each["ENGINE"] != "django.db.backends.dummy" and alias not in tool.non_atomic
    }
    at_once = {alias for alias, each in configured.items() if each["ATOMIC_REQUESTS"]}
    # PostgreSQL's time limit of statements is part of a transaction.
    if not tool.is_read_only or is_limited and connections[DEFAULT_DB_ALIAS].vendor == "postgresql":
        at_once |= {DEFAULT_DB_ALIAS} & configured.keys()
    later = configured.keys() - at_once if tool.may_elicit and may_ask else ()
    return frozenset(at_once), frozenset(later)


@contextmanager
def _sqlite_transaction(tool: str, connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Open an SQLite transaction, and log a warning if the tool holds the write lock for long."""
    began, changes = math.inf, 0
    try:
        with transaction.atomic(using=connection.alias):
            # Started here, since waiting for the lock is not holding it.
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
                "The tool %r kept the SQLite database %r locked for %.1f s, which blocked other "
                "writers. Decorate it with transaction.non_atomic_requests and write in short "
                "transactions (%stools/transactions/)",
                *(tool, connection.alias, seconds, DOCUMENTATION),
            )


class CallTransactions(ExitStack):
    """
    Transactions around a call, or savepoints if a transaction is open.

    The call's writes are committed together with its result, or not at all. There is one in the
    default database for a tool that is not read-only, in each database with ATOMIC_REQUESTS (which
    does not apply to the endpoint's views), and in each that has an open transaction. A tool that
    may ask its client has one in each other database from its first query there, since its writes
    before the question are rolled back. Databases in ``Tool.non_atomic`` have none. Begin and exit
    them in the thread of the tool's queries. PostgreSQL ends their statements after ``seconds``.
    """

    def __init__(
        self, tool: str, at_once: Set[str], later: Set[str], seconds: float | None = None
    ) -> None:
        super().__init__()
        self._seconds = seconds
        self._tool = tool
        self._at_once = at_once
        self._on_first_query = set(later)
        # Errors from before the call that already force a rollback.
        self._raised_before: dict[str, BaseException | None] = {}

    def begin(self) -> None:
        """Begin the transactions that do not wait for a first query."""
        open_now = {
            each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block
        }
        for alias in sorted(self._at_once | open_now):
            self._begin_in(alias)
        for alias in self._on_first_query - open_now:
            self.enter_context(connections[alias].execute_wrapper(partial(self._used, alias)))

    def _begin_in(self, alias: str) -> None:
        connection = connections[alias]
        is_own = not connection.in_atomic_block
        if connection.vendor == "sqlite" and is_own:
            self.enter_context(_sqlite_transaction(self._tool, connection))
        else:
            self.enter_context(transaction.atomic(using=alias))
        if self._seconds is not None and is_own and connection.vendor == "postgresql":
            limit = str(min(math.ceil(self._seconds * 1000), _LONGEST))
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('statement_timeout', %s, true)", [limit])
        self._raised_before[alias] = getattr(connection, "rollback_exc", None)

    def _used(self, alias: str, execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        """Begin the transaction on the first query (Django, "Database instrumentation")."""
        # The tool's own transaction is rolled back when the question leaves it as an exception.
        is_own = connections[alias].in_atomic_block or sql.startswith("BEGIN")
        if alias in self._on_first_query and not is_own:
            self._on_first_query.discard(alias)
            self._begin_in(alias)
        return execute(sql, *rest)

    def settle(self, encoded: Encoded, before_commit: BeforeCommit) -> None:
        """
        Decide whether the transactions of a call that returned a result are committed.

        Calls ``before_commit`` with the databases that will be committed, if any: savepoints do not
        count. An error result rolls back the tool's writes. Raises TransactionManagementError if a
        database error that the tool swallowed has rolled them back.
        """
        committed = []
        for alias, before in self._raised_before.items():
            connection = connections[alias]
            raised = getattr(connection, "rollback_exc", None)
            if encoded.result.is_error:
                transaction.set_rollback(True, using=alias)
            elif connection.needs_rollback and raised not in (None, before):
                raise transaction.TransactionManagementError(
                    "The tool continued after a database error, which rolled back all its writes. "
                    "Wrap queries that may fail in transaction.atomic(), or decorate the tool with "
                    "transaction.non_atomic_requests()."
                )
            elif not connection.savepoint_ids:
                # Make on_commit() hooks robust, so that Django logs their errors instead of failing
                # a committed call. In a savepoint, the hooks include the outer transaction's.
                hooks: list[Any] = connection.run_on_commit
                hooks[:] = [(*hook[:2], True) for hook in hooks]
                # The tool itself may have requested a rollback.
                if not connection.needs_rollback:
                    committed.append(alias)
        if committed:
            before_commit(encoded.size, committed)

    def undo(self) -> None:
        """Mark all transactions for rollback."""
        for alias in self._raised_before:
            transaction.set_rollback(True, using=alias)
