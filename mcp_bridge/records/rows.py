"""
Writing of records: at once on the caller's connection, or by the thread of ``writer``.

Statements are in SQL, without signals and models, since the ORM takes twice as long. Each can be
executed again, also where it is not known whether it was: a row is inserted unless it is there, and
is updated to the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Final, TypeAlias

from django.db import connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import InterfaceError, InternalError, OperationalError

from mcp_bridge.conf import conf
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.models.keys import number
from mcp_bridge.models.outcomes import Outcome
from mcp_bridge.outbound.addresses import network_of
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.records.record import CHANGING, COLUMNS, Record, as_json, from_json, printable
from mcp_bridge.records.repeats import Repeats, refusals
from mcp_bridge.records.writer import Writer

logger = get_logger("mcp_bridge.records")
# Has each record that is lost, as one line of JSON, from which it can be restored.
lost = get_logger("mcp_bridge.records.lost")

# The SQLSTATE of what is refused in a read-only transaction.
READ_ONLY: Final = "25006"

# What keeps an INSERT from adding a row whose key is there. MySQL's IGNORE would hide other errors.
_UNLESS_THERE: Final = {
    "sqlite": "ON CONFLICT DO NOTHING",
    "postgresql": "ON CONFLICT DO NOTHING",
    "mysql": "ON DUPLICATE KEY UPDATE {key} = {key}",
}
_FIELDS: Final = {each.attname: each for each in ToolCallRecord._meta.concrete_fields}

# What is written: a record, or the number of a refusal's repetitions.
Item: TypeAlias = Record | Repeats


def insert_now(record: Record, *, unsynced: bool) -> bool:
    """Insert a record; return False if that fails: it is inserted after the call."""
    try:
        _on_live_connection(partial(insert, [record], unsynced=unsynced))
    except Exception as error:
        text = "A call of %r is on record once it has ended: it could not be written before (%s)"
        logger.warning(text, printable(record.began.tool), error)
        return False
    return True


def write_later(item: Item) -> None:
    """Write a record, or a number of repetitions, with others where it may wait."""
    try:
        if conf.audit.WRITE == "together" and _leave(item):
            return
    except Exception:
        logger.debug("A record could not be left to the thread", exc_info=True)
    write_now(item)


def write_or_count(record: Record, about: Hashable = None) -> None:
    """
    Write the record of a refusal, or count it on the row of the first of this minute.

    The first is one of the same user, credential or address, with the same error code and the same
    ``about``.
    """
    who = record.began.caller[:3]
    caller = who if any(who) else network_of(record.began.caller.remote_address)
    repeats, is_due = refusals.repeated((record.error_code, about, caller), record)
    if repeats is None:
        write_later(record)
    elif is_due:
        write_later(repeats)


def write_now(item: Item) -> None:
    """Write an item, in no transaction of the tool's own; or leave it to the thread."""
    try:
        _on_live_connection(partial(_write, [item]))
    except Exception as error:
        with suppress(Exception):
            if _may_pass(error) and _leave(item):
                return
        _log_loss(item, error)


def write_in(databases: Sequence[str], record: Record) -> bool:
    """
    Write how a call has ended before a transaction is committed; return whether that was done.

    ``databases`` are those that have one. A statement that fails changes nothing of the rest.
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
            settle(record, using)
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
    using, record = router.db_for_write(ToolCallRecord), from_json(line)
    with transaction.atomic(using=using):
        settle(record, using)


def _leave(item: Item) -> bool:
    """Leave an item to the thread, or log its loss if no more can wait; False to write it now."""
    if writer.leave(item):
        return True
    if not writer.is_full() or writer.room() is None:
        return False
    _log_loss(item, TimeoutError("The database takes none, and no more can wait."))
    return True


def _may_pass(error: Exception | None) -> bool:
    """Return whether a database is locked, full, away or read-only, or its session has died."""
    if isinstance(error, InternalError):
        # As psycopg and psycopg2 call it.
        codes = [getattr(error.__cause__, name, None) for name in ("sqlstate", "pgcode")]
        return READ_ONLY in codes
    return isinstance(error, OperationalError | InterfaceError)


def _on_live_connection(write: Callable[[str], object]) -> None:
    """Write, given the database: on a fresh connection if this one has died."""
    using = router.db_for_write(ToolCallRecord)
    connection = connections[using]
    if connection.in_atomic_block:
        # In one of somebody else's; a write that fails must leave the rest of it usable.
        with transaction.atomic(using=using):
            write(using)
        return
    try:
        write(using)
    except (OperationalError, InterfaceError):
        # It may have died while the tool ran.
        if connection.connection is None or connection.is_usable():
            raise
        connection.close()
        write(using)


def _write(items: Sequence[Item], using: str) -> None:
    """Write records and numbers of repetitions, all or none of them."""
    records = [each if isinstance(each, Record) else each.take() for each in items]
    new = [each for each in records if not each.is_begun]
    with transaction.atomic(using=using) if len(items) > 1 else nullcontext():
        if new:
            insert(new, using)
        for each in records:
            if each.is_begun:
                settle(each, using)


def _write_batch(items: Sequence[Item], using: str) -> Sequence[Item]:
    """Write items, together or one by one; return those that wait on. A bad one is logged."""
    error: Exception | None = None
    # A session that has died is another one then; a lock of SQLite has been waited for already.
    for _ in range(1 if connections[using].vendor == "sqlite" else 2):
        try:
            _write(items, using)
            # No request begins here, at which Django forgets what it keeps for DEBUG.
            connections[using].queries_log.clear()
            return ()
        except Exception as raised:
            error = raised
            with suppress(Exception):
                connections[using].close()
    if _may_pass(error):
        return items
    if len(items) == 1:
        _log_loss(items[0], error)
        return ()
    for place, each in enumerate(items):
        if _write_batch([each], using):
            return items[place:]
    return ()


def insert(records: Sequence[Record], using: str, *, unsynced: bool = False) -> None:
    """Insert records unless they are there, all or none of them."""
    connection = connections[using]
    vendor = connection.vendor
    if vendor not in _UNLESS_THERE:
        manager = ToolCallRecord._default_manager.using(using)
        for each in records:
            values = dict(zip(COLUMNS, each.values(), strict=True))
            manager.get_or_create(values, pk=each.key)
        return
    rows = [_row(each, connection) for each in records]
    sql, places, end = _insert_sql(using)
    # In this transaction PostgreSQL does not wait for the disk: the row outlives this process in
    # any case, and the disk has it before what is committed after it.
    if unsynced and vendor == "postgresql" and not connection.in_atomic_block:
        end += " RETURNING set_config('synchronous_commit', 'off', true)"
    with connection.cursor() as cursor:
        if vendor == "sqlite" and len(rows) > 1:
            with transaction.atomic(using=using):
                cursor.executemany(f"{sql} {places} {end}", rows)
        else:
            # In one way to the server and back.
            all_places = ", ".join([places] * len(rows))
            cursor.execute(f"{sql} {all_places} {end}", list(chain(*rows)))


def settle(record: Record, using: str) -> None:
    """Write how a call has ended, or how often it was refused, into its row, there or not."""
    connection = connections[using]
    row = _row(record, connection)
    with connection.cursor() as cursor:
        # A success that is committed with what the tool wrote stays, if the commit seemed to fail.
        sql = _update_sql(using)
        cursor.execute(sql, [*row[CHANGING:], row[0], Outcome.SUCCEEDED.value, record.times])
        is_found = cursor.rowcount
    if not is_found:
        insert([record], using)


def _row(record: Record, connection: BaseDatabaseWrapper) -> list[Any]:
    """Return the values of a record by column, as the database takes them."""
    moment, tail, _, (user_id, *_), *_ = record.began
    if type(user_id) is not int:
        user_id = _FIELDS["user_id"].get_db_prep_save(user_id, connection)
    if connection.vendor in _UNLESS_THERE:
        key: Any = f"{number(moment, tail):032x}"
    else:
        key = _FIELDS["id"].get_db_prep_save(record.key, connection)
    began = datetime.fromtimestamp(moment / 1e6, connection.timezone)
    if not connection.features.supports_timezones:
        # As its field would do, with more care.
        began = began.replace(tzinfo=None)
    return [key, connection.ops.adapt_datetimefield_value(began), user_id, *record.others()]


@lru_cache(maxsize=8)
def _insert_sql(using: str) -> tuple[str, str, str]:
    """Return the parts of an INSERT: up to VALUES, the places of a row, and what follows them."""
    quote = connections[using].ops.quote_name
    columns = ", ".join(quote(str(_FIELDS[name].column)) for name in COLUMNS)
    table, key = quote(ToolCallRecord._meta.db_table), quote(str(_FIELDS["id"].column))
    end = _UNLESS_THERE[connections[using].vendor].format(key=key)
    return f"INSERT INTO {table} ({columns}) VALUES", f"({', '.join(['%s'] * len(COLUMNS))})", end


@lru_cache(maxsize=8)
def _update_sql(using: str) -> str:
    quote = connections[using].ops.quote_name
    column = {name: quote(str(each.column)) for name, each in _FIELDS.items()}
    changes = ", ".join(f"{column[name]} = %s" for name in COLUMNS[CHANGING:])
    table = quote(ToolCallRecord._meta.db_table)
    return (
        f"UPDATE {table} SET {changes} "
        f"WHERE {column['id']} = %s AND {column['outcome']} <> %s AND {column['times']} <= %s"
    )


def _log_loss(item: Item, error: Exception | None) -> None:
    record = item if isinstance(item, Record) else item.take()
    text = "The record of a call of %r is lost: it was not written"
    logger.error(text, printable(record.began.tool), exc_info=error)
    lost.error(as_json(record))


def _lose(items: Sequence[Item]) -> None:
    """Log what waits and cannot be written any more."""
    for item in items:
        _log_loss(item, TimeoutError("The process ends, and the database has not taken it."))


writer: Final = Writer(_write_batch, _lose)
# Waits until all that the thread has to write is written, or logged as lost, and ends its session.
flush: Final = writer.flush
# Writes what the thread has, for as long as the end of a process may take; logs what is lost.
close: Final = writer.close
