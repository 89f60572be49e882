"""
Queries that Django's ORM writes once, and that run again with other values.

To build and compile a query takes the ORM many times as long as a database takes to answer it. The
SQL, the columns and their converters are the ORM's own; each run asks the database.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.core.signals import setting_changed
from django.db import connections
from django.db.models import Field, QuerySet
from django.db.models.expressions import Expression
from django.db.models.sql.compiler import SQLCompiler

# Where a database's own compiler replaces one of these, more than SQL is needed to run its query.
_RUNNING: Final = ("execute_sql", "results_iter", "apply_converters", "get_converters")


class _Converter(NamedTuple):
    """What makes Python's value of a column's; of any connection, so that none is kept alive."""

    column: int
    convert: Callable[..., Any]
    # Whether it is a function of the connection's operations, which are its first argument.
    of_operations: bool
    expression: Expression


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """The SQL of a query to one database; ``fields`` are those of its columns, in their order."""

    alias: str
    sql: str
    fields: tuple[Field[Any, Any] | None, ...]
    _converters: tuple[_Converter, ...]

    def run(self, values: Sequence[Any]) -> Iterable[Sequence[Any]]:
        """Return the rows for ``values`` (prepared) as the ORM does. Raises DatabaseError."""
        with connections[self.alias].cursor() as cursor:
            cursor.execute(self.sql, values)
            rows: list[Sequence[Any]] = cursor.fetchall()
        return map(self._converted, rows) if self._converters else rows

    def _converted(self, row: Sequence[Any]) -> list[Any]:
        connection, values = connections[self.alias], list(row)
        for column, convert, of_operations, expression in self._converters:
            first = (connection.ops,) if of_operations else ()
            values[column] = convert(*first, values[column], expression, connection)
        return values


# By what the query is for and its database; None where the ORM itself has to run it.
_compiled: Final[dict[tuple[Hashable, str], CompiledQuery | None]] = {}
# Only tests change settings while a process runs.
setting_changed.connect(lambda **changed: _compiled.clear(), weak=False)


def compiled(
    name: Hashable, alias: str, values: Sequence[object], make: Callable[[], QuerySet[Any, Any]]
) -> CompiledQuery | None:
    """
    Return the query of that name to a database, which is compiled at its first use.

    ``make`` returns it with ``values`` as its only parameters, in their order. None where it has
    others, or the database's own compiler does more than to write SQL.
    """
    try:
        return _compiled[name, alias]
    except KeyError:
        _compiled[name, alias] = query = _compile(make(), alias, values)
        return query


def _compile(
    queryset: QuerySet[Any, Any], alias: str, values: Sequence[object]
) -> CompiledQuery | None:
    compiler = queryset.query.get_compiler(using=alias)
    if any(getattr(type(compiler), name) is not getattr(SQLCompiler, name) for name in _RUNNING):
        return None
    sql, parameters = compiler.as_sql()
    if list(parameters) != list(values):
        return None
    expressions = [each[0] for each in compiler.select or ()]
    operations, converters = compiler.connection.ops, []
    for column, (functions, expression) in compiler.get_converters(expressions).items():
        for each in functions:
            of_operations = getattr(each, "__self__", None) is operations
            convert = each.__func__ if of_operations else each
            converters.append(_Converter(column, convert, of_operations, expression))
    fields = tuple(getattr(each, "target", None) for each in expressions)
    return CompiledQuery(alias, sql, fields, tuple(converters))
