"""
Rows of records, written in SQL: at once on the caller's connection, or by the thread of ``writer``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from functools import lru_cache, partial
from itertools import chain
from time import monotonic
from typing import Any, Final

from django.db import (
    DatabaseError,
    InterfaceError,
    OperationalError,
    connections,
    models,
    router,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_bridge.audit.writer import PATIENCE, Writer
from mcp_bridge.calls.running import is_in_transaction
from mcp_bridge.conf import conf
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol.text import storable

logger = logging.getLogger("mcp_bridge.audit")

# The columns of a record but for its key, in the order of an INSERT.
_COLUMNS: Final[Mapping[str, models.Field[Any, Any]]] = {
    each.attname: each for each in ToolCallRecord._meta.concrete_fields if not each.primary_key
}
_KEY: Final = str(ToolCallRecord._meta.pk.column)
_BLANK: Final = {name: None if each.null else "" for name, each in _COLUMNS.items()}


def _prepared(values: Mapping[str, object], connection: BaseDatabaseWrapper) -> list[Any]:
    """Return the values as the database takes them: texts of others are cleaned and cut."""
    prepared: list[Any] = []
    for name, value in values.items():
        if isinstance(value, str):
            text = value if value.isascii() and "\0" not in value else storable(value)
            prepared.append(text[: _COLUMNS[name].max_length])
        elif value is None or type(value) in (int, float):
            prepared.append(value)
        elif type(value) is datetime:
            # As its field does, which first looks whether it is one.
            prepared.append(connection.ops.adapt_datetimefield_value(value))
        else:
            prepared.append(_COLUMNS[name].get_db_prep_save(value, connection))
    return prepared


@lru_cache(maxsize=8)
def _insert_sql(using: str) -> str:
    quote, meta = connections[using].ops.quote_name, ToolCallRecord._meta
    columns = ", ".join(quote(str(each.column)) for each in _COLUMNS.values())
    places = ", ".join(["%s"] * len(_COLUMNS))
    return f"INSERT INTO {quote(meta.db_table)} ({columns}) VALUES ({places})"


@lru_cache(maxsize=8)
def _update_sql(using: str, *names: str) -> str:
    quote, meta = connections[using].ops.quote_name, ToolCallRecord._meta
    changes = ", ".join(f"{quote(str(_COLUMNS[name].column))} = %s" for name in names)
    return f"UPDATE {quote(meta.db_table)} SET {changes} WHERE {quote(_KEY)} = %s"


def insert(record: Mapping[str, Any], *, unsynced: bool) -> object:
    """Write a record and return its key; None also stands for a loss, which is logged."""
    return _write(record["tool"], partial(_insert_one, record, unsynced=unsynced))


def insert_later(record: Mapping[str, Any]) -> None:
    """Write a record, with others where it may wait."""
    try:
        using = router.db_for_write(ToolCallRecord)
        if conf.audit.WRITE == "together" and _may_wait(using) and writer.put(record, using):
            return
    except Exception:
        logger.debug("A record could not be left to the thread", exc_info=True)
    _write(record["tool"], partial(_insert_all, [record]))


def can_wait() -> bool:
    """Return whether ``insert_later`` leaves a record to the thread, and asks no database."""
    using = router.db_for_write(ToolCallRecord)
    return conf.audit.WRITE == "together" and _may_wait(using) and writer.has_room()


def amend(tool: str, key: object, values: Mapping[str, Any]) -> None:
    """Update the record with a key."""
    _write(tool, partial(_update, key, values))


def amend_in(databases: Sequence[str], key: object, values: Mapping[str, Any]) -> bool:
    """
    Update the record with a key in a transaction that is about to be committed.

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
            _update(key, values, using)
    except Exception:
        is_undone = is_sqlite and not connection.connection.in_transaction
        if is_undone or connection.needs_rollback:
            # With a full disk, or a deadlock, the database has undone what the tool wrote.
            raise
        logger.debug("A record could not be updated in the transaction", exc_info=True)
        return False
    return True


def flush() -> None:
    """
    Wait until all that the thread has to write is written, or logged as lost, and ends its session.

    Does nothing in a transaction on SQLite, for whose end the thread itself would wait.
    """
    writer.flush()


def _may_wait(using: str) -> bool:
    """Return whether another connection can write to the database what this one would write now."""
    # Not where that would be in somebody else's transaction.
    if is_in_transaction(using):
        return False
    return _is_for_all(using, str(connections.settings[using]["NAME"]))


@lru_cache(maxsize=8)
def _is_for_all(using: str, name: str) -> bool:
    """Return whether each connection to a database finds the same there."""
    connection = connections[using]
    if hasattr(connection, "set_schema"):
        # In a schema of this request (django-tenants).
        return False
    # A database in memory is another one for each connection, or locked by any that reads.
    return connection.vendor != "sqlite" or not connection.is_in_memory_db()  # type: ignore[attr-defined]


def _write(tool: str, write: Callable[[str], object]) -> object:
    """
    Return what ``write`` returns, given the database: in no transaction of the tool's own.

    None also stands for a loss, which is logged.
    """
    try:
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
            if connection.connection is None or connection.is_usable():
                raise
        connection.close()
        return write(using)
    except Exception as error:
        _log_loss(tool, error)
        return None


def _log_loss(tool: str, error: Exception) -> None:
    logger.error("The record of a call of %r is lost: it was not written", tool, exc_info=error)


def _insert_batch(rows: Sequence[Mapping[str, Any]], using: str) -> None:
    """
    Write records in one statement, or in another on a fresh connection where that fails.

    Where both fail, one by one, so that a bad one takes no other with it. Logs what is lost.
    """
    error = _attempt(rows, using) and _attempt(rows, using)
    if error is None:
        return
    until = monotonic() + PATIENCE
    for row in rows:
        if len(rows) > 1:
            is_late = monotonic() > until
            error = TimeoutError("The database takes none.") if is_late else _attempt([row], using)
        if error is not None:
            _log_loss(row["tool"], error)


def _attempt(rows: Sequence[Mapping[str, Any]], using: str) -> Exception | None:
    """Write records; return the error of a failure, after which the connection is closed."""
    try:
        _insert_all(rows, using)
        # No request begins here, at which Django forgets what it keeps for DEBUG.
        connections[using].queries_log.clear()
    except Exception as error:
        with suppress(Exception):
            connections[using].close()
        return error
    return None


def _insert_one(values: Mapping[str, object], using: str, *, unsynced: bool) -> object:
    """
    Write a record, given by column, and return its primary key.

    One statement and no signals: the ORM takes twice as long. With ``unsynced``, PostgreSQL
    does not wait for the disk: the row outlives this process in any case, and the disk has it
    before what is committed after it.
    """
    row = {**_BLANK, **values}
    connection = connections[using]
    if connection.vendor not in ("sqlite", "mysql", "postgresql"):
        record = ToolCallRecord(**row)
        record.save(using=using, force_insert=True)
        return record.pk
    sql = _insert_sql(using)
    if connection.vendor == "postgresql":
        sql += f" RETURNING {connection.ops.quote_name(_KEY)}"
        # Holds for the transaction of this statement.
        if unsynced and not connection.in_atomic_block:
            sql += ", set_config('synchronous_commit', 'off', true)"
    with connection.cursor() as cursor:
        cursor.execute(sql, _prepared(row, connection))
        is_returned = connection.vendor == "postgresql"
        return cursor.fetchone()[0] if is_returned else cursor.lastrowid


def _insert_all(rows: Sequence[Mapping[str, object]], using: str) -> None:
    """Write records, given by column, all or none of them."""
    connection = connections[using]
    prepared = [_prepared({**_BLANK, **values}, connection) for values in rows]
    sql = _insert_sql(using)
    with connection.cursor() as cursor:
        if len(prepared) == 1:
            cursor.execute(sql, prepared[0])
        elif connection.vendor in ("mysql", "postgresql"):
            # In one way to the server and back.
            places = sql[sql.rindex("(") :]
            cursor.execute(sql + f", {places}" * (len(prepared) - 1), list(chain(*prepared)))
        else:
            with transaction.atomic(using=using):
                cursor.executemany(sql, prepared)


def _update(key: Any, values: Mapping[str, object], using: str) -> None:
    """Update the record with a primary key. Raises DatabaseError where it is gone."""
    connection = connections[using]
    with connection.cursor() as cursor:
        cursor.execute(_update_sql(using, *values), [*_prepared(values, connection), key])
        if not cursor.rowcount:
            raise DatabaseError("The record is not there any more.")


writer: Final = Writer(_insert_batch)
