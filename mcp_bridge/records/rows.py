"""
Writes records: at once on the caller's connection, or through the thread of ``writer``.

Statements are plain SQL, without signals and models, since the ORM takes twice as long. Each can
be repeated safely: a row is inserted only if it does not exist, and updated to the same values.
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
# Receives each lost record as one line of JSON, from which it can be restored.
lost = get_logger("mcp_bridge.records.lost")

# The SQLSTATE of a write in a read-only transaction.
READ_ONLY: Final = "25006"

# Skips an INSERT whose key exists. MySQL's IGNORE would hide other errors.
_UNLESS_THERE: Final = {
    "sqlite": "ON CONFLICT DO NOTHING",
    "postgresql": "ON CONFLICT DO NOTHING",
    "mysql": "ON DUPLICATE KEY UPDATE {key} = {key}",
}
_FIELDS: Final = {each.attname: each for each in ToolCallRecord._meta.concrete_fields}

# A record, or the count of a refusal's repetitions.
Item: TypeAlias = Record | Repeats


def insert_now(record: Record, *, unsynced: bool) -> bool:
    """Insert a record; return False if that fails, so that it is inserted after the call."""
    try:
        _on_live_connection(partial(insert, [record], unsynced=unsynced))
    except Exception as error:
        text = "The record of a call of %r will be written when it ends; now it failed: %s"
        logger.warning(text, printable(record.began.tool), error)
        return False
    return True


def write_later(item: Item) -> None:
    """Write an item, batched with others if it may wait."""
    try:
        if conf.audit.WRITE == "together" and _leave(item):
            return
    except Exception:
        logger.debug("A record could not be queued", exc_info=True)
    write_now(item)


def write_or_count(record: Record, about: Hashable = None) -> None:
    """
    Write the record of a refusal, or count it on the first one of this minute.

    Both have the same user, credential or address, the same error code and the same ``about``.
    """
    who = record.began.caller[:3]
    caller = who if any(who) else network_of(record.began.caller.remote_address)
    repeats, is_due = refusals.repeated((record.error_code, about, caller), record)
    if repeats is None:
        write_later(record)
    elif is_due:
        write_later(repeats)


def write_now(item: Item) -> None:
    """Write an item outside the tool's transactions, or queue it if that fails."""
    try:
        _on_live_connection(partial(_write, [item]))
    except Exception as error:
        with suppress(Exception):
            if _may_pass(error) and _leave(item):
                return
        _log_loss(item, error)


def write_in(databases: Sequence[str], record: Record) -> bool:
    """
    Record the end of a call before its transaction commits; return whether that was done.

    ``databases`` are those with a transaction. A failed statement does not affect the rest.
    """
    using = router.db_for_write(ToolCallRecord)
    if using not in databases:
        return False
    connection = connections[using]
    is_sqlite = connection.vendor == "sqlite"
    try:
        session = connection.connection
        if connection.vendor == "postgresql" and not session.info.transaction_status:
            # No statement was sent in this transaction, so there is nothing to commit.
            return False
        # On other databases a failed statement would abort the whole transaction.
        with nullcontext() if is_sqlite else transaction.atomic(using=using):
            settle(record, using)
    except Exception:
        is_undone = is_sqlite and not connection.connection.in_transaction
        if is_undone or connection.needs_rollback:
            # A full disk or a deadlock has rolled back the tool's changes.
            raise
        logger.debug("A record could not be written in the transaction", exc_info=True)
        return False
    return True


def restore(line: str) -> None:
    """
    Write the record from a log line of a lost one, unless it exists.

    Raises ValueError for any other line, and DatabaseError if it cannot be written.
    """
    using, record = router.db_for_write(ToolCallRecord), from_json(line)
    with transaction.atomic(using=using):
        settle(record, using)


def _leave(item: Item) -> bool:
    """Queue an item, or log its loss if the queue is full; False means: write it now."""
    if writer.leave(item):
        return True
    if not writer.is_full() or writer.room() is None:
        return False
    _log_loss(item, TimeoutError("The database is unavailable and the queue is full."))
    return True


def _may_pass(error: Exception | None) -> bool:
    """Return whether a database is locked, full, unreachable or read-only, or a session died."""
    if isinstance(error, InternalError):
        # Named so in psycopg and psycopg2.
        codes = [getattr(error.__cause__, name, None) for name in ("sqlstate", "pgcode")]
        return READ_ONLY in codes
    return isinstance(error, OperationalError | InterfaceError)


def _on_live_connection(write: Callable[[str], object]) -> None:
    """Call ``write`` with the database alias, on a new connection if the current one has died."""
    using = router.db_for_write(ToolCallRecord)
    connection = connections[using]
    if connection.in_atomic_block:
        # An outer transaction, which must stay usable if the write fails.
        with transaction.atomic(using=using):
            write(using)
        return
    try:
        write(using)
    except (OperationalError, InterfaceError):
        # The connection may have died while the tool ran.
        if connection.connection is None or connection.is_usable():
            raise
        connection.close()
        write(using)


def _write(items: Sequence[Item], using: str) -> None:
    """Write records and counts of repetitions, all or none."""
    records = [each if isinstance(each, Record) else each.take() for each in items]
    new = [each for each in records if not each.is_begun]
    with transaction.atomic(using=using) if len(items) > 1 else nullcontext():
        if new:
            insert(new, using)
        for each in records:
            if each.is_begun:
                settle(each, using)


def _write_batch(items: Sequence[Item], using: str) -> Sequence[Item]:
    """Write items, together or one by one; return those to retry. A bad one is logged."""
    error: Exception | None = None
    # The retry has a new session. On SQLite the first attempt has already waited for locks.
    for _ in range(1 if connections[using].vendor == "sqlite" else 2):
        try:
            _write(items, using)
            # Django clears its debug log only at the start of requests.
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
    """Insert the records that do not exist yet, all or none."""
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
    # PostgreSQL does not wait for the disk in this transaction: the row survives a crash of this
    # process, and is on disk before anything that commits later.
    if unsynced and vendor == "postgresql" and not connection.in_atomic_block:
        end += " RETURNING set_config('synchronous_commit', 'off', true)"
    with connection.cursor() as cursor:
        if vendor == "sqlite" and len(rows) > 1:
            with transaction.atomic(using=using):
                cursor.executemany(f"{sql} {places} {end}", rows)
        else:
            # One round trip to the server.
            all_places = ", ".join([places] * len(rows))
            cursor.execute(f"{sql} {all_places} {end}", list(chain(*rows)))


def settle(record: Record, using: str) -> None:
    """Update the row with a call's end or a refusal's count; insert it if it is missing."""
    connection = connections[using]
    row = _row(record, connection)
    with connection.cursor() as cursor:
        # If the commit seemed to fail but succeeded, the committed success is kept.
        sql = _update_sql(using)
        cursor.execute(sql, [*row[CHANGING:], row[0], Outcome.SUCCEEDED.value, record.times])
        is_found = cursor.rowcount
    if not is_found:
        insert([record], using)


def _row(record: Record, connection: BaseDatabaseWrapper) -> list[Any]:
    """Return the values of a record by column, prepared for the database."""
    moment, tail, _, (user_id, *_), *_ = record.began
    if type(user_id) is not int:
        user_id = _FIELDS["user_id"].get_db_prep_save(user_id, connection)
    if connection.vendor in _UNLESS_THERE:
        key: Any = f"{number(moment, tail):032x}"
    else:
        key = _FIELDS["id"].get_db_prep_save(record.key, connection)
    began = datetime.fromtimestamp(moment / 1e6, connection.timezone)
    if not connection.features.supports_timezones:
        # Like the field does, but without a warning.
        began = began.replace(tzinfo=None)
    return [key, connection.ops.adapt_datetimefield_value(began), user_id, *record.others()]


@lru_cache(maxsize=8)
def _insert_sql(using: str) -> tuple[str, str, str]:
    """Return the parts of an INSERT: up to VALUES, the placeholders of a row, and the rest."""
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
    """Log records that can no longer be written."""
    for item in items:
        _log_loss(item, TimeoutError("The process ends before the database accepted it."))


writer: Final = Writer(_write_batch, _lose)
# Waits until the thread has written or lost all records, and closed its connection.
flush: Final = writer.flush
# Writes queued records for as long as a process may take to end; logs the rest as lost.
close: Final = writer.close
