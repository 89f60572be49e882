"""
The statements of records, in SQL: one each and no signals, since the ORM takes twice as long.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeAlias

from django.core.exceptions import ValidationError
from django.core.signing import BadSignature, Signer
from django.db import DatabaseError, OperationalError, connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.models.outcomes import Outcome
from mcp_bridge.protocol.text import storable
from mcp_bridge.records.repeats import Repeats, refusals

# A record, by column.
Row: TypeAlias = dict[str, Any]

# The columns of a record but for its key, in the order of an INSERT.
COLUMNS: Final[Mapping[str, models.Field[Any, Any]]] = {
    each.attname: each for each in ToolCallRecord._meta.concrete_fields if not each.primary_key
}
_KEY: Final = str(ToolCallRecord._meta.pk.column)
_BLANK: Final = {name: None if each.null else "" for name, each in COLUMNS.items()} | {"times": 1}
# By which a row is found whose key is not known; the time of a record is to the microsecond.
_SAME: Final = ("started_at", "remote_address", "tool")
_ALIKE: Final = (*_SAME, "error_code")
# No column: of a record that the database may have, the sessions that died before they said so.
IN_DOUBT: Final = "in_doubt"
# The member of a logged record with its signature, and the salt of the signature.
SIGNATURE: Final = "signature"
_SALT: Final = "mcp_bridge.records.lost"
# How often a session that was given up is looked for. After a restart of the server its number may
# be another one's, which is not waited for any longer.
_MOST_LOOKS: Final = 60


@dataclass(slots=True)
class LostSession:
    """A session of MySQL or MariaDB that its client has given up, and which may be at work."""

    number: int
    looks_left: int = _MOST_LOOKS

    @classmethod
    def of(cls, connection: BaseDatabaseWrapper) -> LostSession | None:
        """
        Return the session of a connection that has died; None where it can write nothing any more.

        The clients of other databases give up none that is alive.
        """
        number = getattr(connection.connection, "thread_id", None)
        return cls(number()) if connection.vendor == "mysql" and number else None

    def is_at_work(self, using: str) -> bool:
        """Return whether the server has yet to end the session."""
        if self.looks_left:
            with connections[using].cursor() as cursor:
                # A user sees their own without any permission.
                sql = "SELECT 1 FROM information_schema.processlist WHERE id = %s"
                cursor.execute(sql, [self.number])
                # Once it has ended it is asked for no more: many records may be in doubt for it.
                self.looks_left = self.looks_left - 1 if cursor.fetchone() else 0
        return self.looks_left > 0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call of ``tool`` has ended, whose row has this key."""

    tool: str
    key: object
    values: Mapping[str, Any]

    def write(self, using: str) -> None:
        """Update the row."""
        update(self.key, self.values, using)

    def as_row(self) -> Mapping[str, Any]:
        """Return it as it is logged where it is lost."""
        return {"id": self.key, "tool": self.tool, **self.values}


@dataclass(frozen=True, slots=True)
class Repetition:
    """The refusals that are to be counted on the row of the first."""

    repeats: Repeats

    @property
    def tool(self) -> str:
        """Return the name that the last of them was called by."""
        return str(self.repeats.last["tool"])

    def write(self, using: str) -> None:
        """Add them to the row of the first; where that is gone, the last has a new one."""
        repeats = self.repeats
        with refusals.written(repeats) as times:
            if not times:
                return
            with connections[using].cursor() as cursor:
                sql = _where(_count_sql(using), using, _ALIKE)
                cursor.execute(sql, [times, *_values_of(repeats.first, using, _ALIKE)])
                is_found = cursor.rowcount
            if not is_found:
                insert_all([{**repeats.last, "times": times}], using)
                repeats.first = repeats.last

    def as_row(self) -> Mapping[str, Any]:
        """Return them as one row, as they are logged if they are lost; empty if none is left."""
        times = self.repeats.times + self.repeats.taken
        return {**self.repeats.last, "times": times} if times else {}


# A change of a row.
Change: TypeAlias = Ending | Repetition


def as_json(item: Row | Change) -> str:
    """Return a record or a change as one line of ASCII, signed, which ``from_json`` reads."""
    row = item if isinstance(item, dict) else item.as_row()
    return signed({name: each for name, each in row.items() if name != IN_DOUBT})


def signed(row: Mapping[str, Any]) -> str:
    """Return an object of JSON with its signature as the last member."""
    text = json.dumps(row, default=str)
    signature = Signer(salt=_SALT).signature(text)
    return json.dumps({**json.loads(text), SIGNATURE: signature})


def from_json(line: str) -> Row | Change:
    """
    Return the record or change in a line of ``as_json``; a log may have put text before it.

    It may be in the table already. Raises ValueError for a line without one that was signed with
    SECRET_KEY or a key of SECRET_KEY_FALLBACKS: other lines of a log hold the text of strangers.
    """
    try:
        row = json.loads(line[line.index("{") :])
        signature = row.pop(SIGNATURE, None)
        Signer(salt=_SALT).unsign(f"{json.dumps(row)}:{signature}")
    except RecursionError as error:
        raise ValueError("it is no JSON that anybody reads") from error
    except BadSignature as error:
        raise ValueError("this site has not signed it") from error
    key, tool = row.pop("id", None), row.get("tool")
    is_whole = key is not None or row.keys() >= {*_SAME}
    if not isinstance(tool, str) or not is_whole or not row.keys() <= COLUMNS.keys():
        raise ValueError("it is not one of a record")
    try:
        values = {name: COLUMNS[name].to_python(each) for name, each in row.items()}
    except ValidationError as error:
        raise ValueError("; ".join(error.messages)) from error
    if key is not None:
        return Ending(tool, key, values)
    return {**values, IN_DOUBT: ()}


def insert_one(row: Row, using: str, *, unsynced: bool) -> object:
    """
    Insert a record, unless it is there, and return its primary key.

    Raises OperationalError where it is not known yet whether it is there.

    With ``unsynced``, PostgreSQL does not wait for the disk: the row outlives this process in any
    case, and the disk has it before what is committed after it.
    """
    connection = connections[using]
    if IN_DOUBT in row and (key := _key_of(row, using)) is not None:
        return key
    if connection.vendor not in ("sqlite", "mysql", "postgresql"):
        record = ToolCallRecord(**_full(row))
        record.save(using=using, force_insert=True)
        return record.pk
    sql = _insert_sql(using)
    if connection.vendor == "postgresql":
        sql += f" RETURNING {connection.ops.quote_name(_KEY)}"
        # Holds for the transaction of this statement.
        if unsynced and not connection.in_atomic_block:
            sql += ", set_config('synchronous_commit', 'off', true)"
    with connection.cursor() as cursor:
        cursor.execute(sql, _prepared(_full(row), connection))
        is_returned = connection.vendor == "postgresql"
        return cursor.fetchone()[0] if is_returned else cursor.lastrowid


def insert_all(rows: Sequence[Row], using: str) -> None:
    """
    Insert records, all or none of them; those in doubt that are there are updated.

    Raises OperationalError where it is not known yet whether they are there.
    """
    connection = connections[using]
    prepared = []
    for row in rows:
        if IN_DOUBT in row and (key := _key_of(row, using)) is not None:
            update(key, {name: row[name] for name in COLUMNS if name in row}, using)
        else:
            prepared.append(_prepared(_full(row), connection))
    if not prepared:
        return
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


def update(key: Any, values: Mapping[str, Any], using: str) -> None:
    """
    Update the record with a primary key. Raises DatabaseError where it is gone.

    A success is committed with what the tool wrote, and stays, though the commit seemed to fail.
    """
    connection = connections[using]
    key_at = f"{connection.ops.quote_name(_KEY)} = %s"
    outcome = connection.ops.quote_name(str(COLUMNS["outcome"].column))
    sql = f"{_update_sql(using, *values)} WHERE {key_at} AND {outcome} <> %s"
    with connection.cursor() as cursor:
        cursor.execute(sql, [*_prepared(values, connection), key, Outcome.SUCCEEDED.value])
        if cursor.rowcount:
            return
        table = connection.ops.quote_name(ToolCallRecord._meta.db_table)
        cursor.execute(f"SELECT 1 FROM {table} WHERE {key_at}", [key])
        if cursor.fetchone() is None:
            raise DatabaseError("The record is not there any more.")


def _key_of(row: Row, using: str) -> object:
    """
    Return the primary key of a record that the database may have, or None.

    Raises OperationalError where that is not decided yet.
    """
    if any(each.is_at_work(using) for each in row[IN_DOUBT]):
        raise OperationalError("The session that was sent a record has not ended.")
    quote = connections[using].ops.quote_name
    sql = f"SELECT {quote(_KEY)} FROM {quote(ToolCallRecord._meta.db_table)}"
    with connections[using].cursor() as cursor:
        cursor.execute(_where(sql, using, _SAME), _values_of(row, using, _SAME))
        found = cursor.fetchone()
    return None if found is None else found[0]


def _full(row: Row) -> Row:
    """Return a record with all columns, in their order."""
    return {name: row.get(name, blank) for name, blank in _BLANK.items()}


def _prepared(values: Mapping[str, object], connection: BaseDatabaseWrapper) -> list[Any]:
    """Return the values as the database takes them: texts of others are cleaned and cut."""
    prepared: list[Any] = []
    for name, value in values.items():
        if isinstance(value, str):
            text = value if value.isascii() and "\0" not in value else storable(value)
            prepared.append(text[: COLUMNS[name].max_length])
        elif value is None or type(value) in (int, float):
            prepared.append(value)
        elif type(value) is datetime:
            # As its field does, which first looks whether it is one.
            prepared.append(connection.ops.adapt_datetimefield_value(value))
        else:
            prepared.append(COLUMNS[name].get_db_prep_save(value, connection))
    return prepared


def _values_of(row: Mapping[str, object], using: str, names: Sequence[str]) -> list[Any]:
    return _prepared({name: row[name] for name in names}, connections[using])


@lru_cache(maxsize=8)
def _insert_sql(using: str) -> str:
    quote, meta = connections[using].ops.quote_name, ToolCallRecord._meta
    columns = ", ".join(quote(str(each.column)) for each in COLUMNS.values())
    places = ", ".join(["%s"] * len(COLUMNS))
    return f"INSERT INTO {quote(meta.db_table)} ({columns}) VALUES ({places})"


@lru_cache(maxsize=8)
def _update_sql(using: str, *names: str) -> str:
    quote, meta = connections[using].ops.quote_name, ToolCallRecord._meta
    changes = ", ".join(f"{quote(str(COLUMNS[name].column))} = %s" for name in names)
    return f"UPDATE {quote(meta.db_table)} SET {changes}"


@lru_cache(maxsize=8)
def _count_sql(using: str) -> str:
    quote, meta = connections[using].ops.quote_name, ToolCallRecord._meta
    times = quote(str(COLUMNS["times"].column))
    return f"UPDATE {quote(meta.db_table)} SET {times} = {times} + %s"


def _where(sql: str, using: str, names: Sequence[str]) -> str:
    quote = connections[using].ops.quote_name
    found = " AND ".join(f"{quote(str(COLUMNS[name].column))} = %s" for name in names)
    return f"{sql} WHERE {found}"
