"""
The statements of records, in SQL: without signals and models, since the ORM takes twice as long.

Each can be executed again, also where it is not known whether it was: a row is inserted unless it
is there, and is updated to the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.models.keys import number
from mcp_bridge.models.outcomes import Outcome
from mcp_bridge.records.record import CHANGING, COLUMNS, Record

# What keeps an INSERT from adding a row whose key is there. MySQL's IGNORE would hide other errors.
_UNLESS_THERE: Final = {
    "sqlite": "ON CONFLICT DO NOTHING",
    "postgresql": "ON CONFLICT DO NOTHING",
    "mysql": "ON DUPLICATE KEY UPDATE {key} = {key}",
}
_FIELDS: Final = {each.attname: each for each in ToolCallRecord._meta.concrete_fields}


def insert(records: Sequence[Record], using: str, *, unsynced: bool = False) -> None:
    """
    Insert records unless they are there, all or none of them.

    With ``unsynced``, PostgreSQL does not wait for the disk: the row outlives this process in any
    case, and the disk has it before what is committed after it.
    """
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
    # Holds for the transaction of this statement.
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
    """
    Write how a call has ended, or how often it was refused, into its row; insert a missing row.

    A success is committed with what the tool wrote, and stays, though the commit seemed to fail.
    """
    connection = connections[using]
    row = _row(record, connection)
    with connection.cursor() as cursor:
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
