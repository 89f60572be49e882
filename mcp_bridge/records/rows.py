"""
Writing of records: at once on the caller's connection, or by the thread of ``writer``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Final, TypeAlias

from django.db import (
    InterfaceError,
    InternalError,
    OperationalError,
    connections,
    router,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_bridge.calls.running import is_in_transaction
from mcp_bridge.conf import conf
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.outbound.addresses import network_of
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.records.repeats import refusals
from mcp_bridge.records.statements import (
    IN_DOUBT,
    Change,
    Ending,
    LostSession,
    Repetition,
    Row,
    as_json,
    from_json,
    insert_all,
    insert_one,
    update,
)
from mcp_bridge.records.writer import KEPT, LIMIT, Writer

logger = get_logger("mcp_bridge.records")
# Has each record that is lost, as one line of JSON, from which it can be restored.
lost = get_logger("mcp_bridge.records.lost")

# The SQLSTATE of what is refused in a read-only transaction.
READ_ONLY: Final = "25006"

# What is written: a record by column, or a change.
Item: TypeAlias = Row | Change


def insert(record: Row, *, unsynced: bool) -> object:
    """Write a record, and return its key; None where that fails: it is inserted after the call."""
    try:
        return _in_no_transaction_of_tools(partial(insert_one, record, unsynced=unsynced), record)
    except Exception as error:
        text = "A call of %r is on record once it has ended: it could not be written before (%s)"
        logger.warning(text, record["tool"], error)
        return None


def insert_later(item: Item) -> None:
    """Write a record or a change, with others where it may wait."""
    try:
        if conf.audit.WRITE == "together" and _queue(item):
            return
    except Exception:
        logger.debug("A record could not be left to the thread", exc_info=True)
    _write(item)


def insert_or_count(record: Row, about: Hashable = None) -> None:
    """
    Write the record of a refusal, or count it on the row of the first of this minute.

    The first is one of the same user, credential or address, with the same error code and the same
    ``about``.
    """
    who = [record.get(name) for name in ("user_id", "user_name", "credential")]
    caller = tuple(who) if any(who) else network_of(record["remote_address"])
    repeats, is_due = refusals.repeated((record["error_code"], about, caller), record)
    if repeats is None:
        insert_later(record)
    elif is_due:
        insert_later(Repetition(repeats))


def can_wait() -> bool:
    """Return whether ``insert_later`` leaves a record to the thread, and asks no database."""
    using = router.db_for_write(ToolCallRecord)
    return conf.audit.WRITE == "together" and _may_wait(using) and writer.has_room()


def amend(tool: str, key: object, values: Mapping[str, Any]) -> None:
    """Update the record with a key."""
    _write(Ending(tool, key, values))


def write_in(databases: Sequence[str], key: object, values: Mapping[str, Any]) -> bool:
    """
    Update the record with a key, or insert one for no key, before a transaction is committed.

    ``databases`` are those that have one. Returns whether that was done; a statement that fails
    changes nothing of the rest.
    """
    using = router.db_for_write(ToolCallRecord)
    if using not in databases:
        return False
    connection = connections[using]
    is_sqlite = connection.vendor == "sqlite"
    try:
        session = connection.connection
        if connection.vendor == "postgresql" and not session.info.transaction_status:
            # The tool has asked nothing there, so that there is nothing to commit.
            return False
        # Elsewhere a statement that fails takes the transaction with it.
        with nullcontext() if is_sqlite else transaction.atomic(using=using):
            if key is None:
                insert_all([dict(values)], using)
            else:
                update(key, values, using)
    except Exception:
        is_undone = is_sqlite and not connection.connection.in_transaction
        if is_undone or connection.needs_rollback:
            # With a full disk, or a deadlock, the database has undone what the tool wrote.
            raise
        logger.debug("A record could not be written in the transaction", exc_info=True)
        return False
    return True


def restore(line: str) -> None:
    """
    Write the record of a line in which it was logged as lost, unless it is there.

    Raises ValueError for another line, and DatabaseError where it cannot be written.
    """
    using = router.db_for_write(ToolCallRecord)
    with transaction.atomic(using=using):
        _write_all([from_json(line)], using)


def flush() -> None:
    """
    Wait until all that the thread has to write is written, or logged as lost, and ends its session.

    Does nothing in a transaction on SQLite, for whose end the thread itself would wait.
    """
    writer.flush()


def close() -> None:
    """Write what the thread has, for as long as the end of a process may take; log what is lost."""
    writer.close()


def _may_wait(using: str) -> bool:
    """Return whether another connection can write to the database what this one would write now."""
    # Not where that would be in somebody else's transaction.
    if is_in_transaction(using):
        return False
    return _is_for_all(using, str(connections.settings[using]["NAME"]))


@lru_cache(maxsize=8)
def _has_one_writer(using: str) -> bool:
    # Kept, since each task on an event loop would make a connection to ask it.
    return connections[using].vendor == "sqlite"


@lru_cache(maxsize=8)
def _is_for_all(using: str, name: str) -> bool:
    """Return whether each connection to a database finds the same there."""
    connection = connections[using]
    if hasattr(connection, "set_schema"):
        # In a schema of this request (django-tenants).
        return False
    # A database in memory is another one for each connection, or locked by any that reads.
    return connection.vendor != "sqlite" or not connection.is_in_memory_db()  # type: ignore[attr-defined]


def _queue(item: Item) -> bool:
    """
    Leave an item to the thread; return False where the caller has to write it.

    SQLite takes one writer at a time, so that a caller who writes only waits for it, as for any
    database that takes nothing just now: what the thread cannot keep is lost there, and logged.
    """
    using = router.db_for_write(ToolCallRecord)
    if not _may_wait(using):
        return False
    waits = writer.is_held_up or _has_one_writer(using)
    if writer.put(item, using, KEPT if waits else LIMIT):
        return True
    if waits and writer.is_full():
        _log_loss(item, TimeoutError("The database takes none, and no more can wait."))
        return True
    return False


def _may_pass(error: Exception | None) -> bool:
    """
    Return whether a database that has failed so may do the same later.

    Then it is locked, full, away or read-only, as a standby of PostgreSQL, or its session has died.
    """
    if isinstance(error, InternalError):
        # As psycopg and psycopg2 call it.
        codes = [getattr(error.__cause__, name, None) for name in ("sqlstate", "pgcode")]
        return READ_ONLY in codes
    return isinstance(error, OperationalError | InterfaceError)


def _is_passing(error: Exception) -> bool:
    """Return whether what failed so can be written later, by another connection."""
    return _may_pass(error) and _may_wait(router.db_for_write(ToolCallRecord))


def _write(item: Item) -> None:
    """Write an item now, in no transaction of the tool's own; or leave it to the thread."""
    try:
        _in_no_transaction_of_tools(partial(_write_all, [item]), item)
    except Exception as error:
        with suppress(Exception):
            if _is_passing(error) and _queue(item):
                return
        _log_loss(item, error)


def _in_no_transaction_of_tools(write: Callable[[str], object], item: Item) -> object:
    """Return what ``write`` returns, given the database: on a fresh connection if it has died."""
    using = router.db_for_write(ToolCallRecord)
    connection = connections[using]
    if connection.in_atomic_block:
        # In one of somebody else's; a write that fails must leave the rest of it usable.
        with transaction.atomic(using=using):
            return write(using)
    try:
        return write(using)
    except (OperationalError, InterfaceError):
        # It may have died while the tool ran.
        if not _has_died(connection):
            raise
        _doubt([item], connection)
    connection.close()
    return write(using)


def _has_died(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the session of a statement that has just failed is over."""
    return connection.connection is not None and not connection.is_usable()


def _doubt(items: Sequence[Item], connection: BaseDatabaseWrapper) -> None:
    """Have records looked for before they are inserted: the database may have them already."""
    session = LostSession.of(connection)
    sessions = () if session is None else (session,)
    for item in items:
        if isinstance(item, dict):
            item[IN_DOUBT] = (*item.get(IN_DOUBT, ()), *sessions)


def _log_loss(item: Item, error: Exception) -> None:
    if not isinstance(item, dict) and not item.as_row():
        # They have been written meanwhile.
        return
    tool = item["tool"] if isinstance(item, dict) else item.tool
    logger.error("The record of a call of %r is lost: it was not written", tool, exc_info=error)
    lost.error(as_json(item))


def _lose(items: Sequence[Item]) -> None:
    """Log what waits and cannot be written any more."""
    for item in items:
        _log_loss(item, TimeoutError("The process ends, and the database has not taken it."))


def _write_batch(items: Sequence[Item], using: str) -> Sequence[Item]:
    """
    Write records in one statement, and then changes; return what is to wait on.

    What fails is tried again on a fresh connection, and then one by one, so that a bad one takes no
    other with it; that is lost, and logged. Nothing is tried again at once that waits for a lock.
    """
    records = [each for each in items if isinstance(each, dict)]
    parts: list[Sequence[Item]] = [[each] for each in items if not isinstance(each, dict)]
    error = _attempt(records, using) if records else None
    if error is not None and not _may_pass(error):
        parts[:0] = [[each] for each in records]
    elif error is not None:
        return [*records, *chain(*parts)]
    for place, part in enumerate(parts):
        error = _attempt(part, using)
        if _may_pass(error):
            return [*chain(*parts[place:])]
        if error is not None:
            _log_loss(part[0], error)
    return ()


def _attempt(items: Sequence[Item], using: str) -> Exception | None:
    """Write items; return the error of a failure, after which the connection is closed."""
    error: Exception | None = None
    # A session that has died is another one then; a lock of SQLite has been waited for already.
    for _ in range(1 if connections[using].vendor == "sqlite" else 2):
        try:
            _write_all(items, using)
            # No request begins here, at which Django forgets what it keeps for DEBUG.
            connections[using].queries_log.clear()
            return None
        except Exception as raised:
            error = raised
            if _has_died(connections[using]):
                _doubt(items, connections[using])
            with suppress(Exception):
                connections[using].close()
    return error


def _write_all(items: Sequence[Item], using: str) -> None:
    """Write records, or one change."""
    if isinstance(items[0], dict):
        insert_all([each for each in items if isinstance(each, dict)], using)
    else:
        items[0].write(using)


writer: Final = Writer(_write_batch, _lose)
