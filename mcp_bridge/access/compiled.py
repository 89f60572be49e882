"""
Queries that Django's ORM compiles once and that run again with other values.

The ORM takes many times as long to build and compile a query as the database to answer it. The
SQL, the columns and their converters are the ORM's; every run queries the database.
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

# If a backend's compiler overrides one of these, running its SQL is not enough.
_RUNNING: Final = ("execute_sql", "results_iter", "apply_converters", "get_converters")


class _Converter(NamedTuple):
    """A converter of a column's values, without a reference to the connection."""

    column: int
    convert: Callable[..., Any]
    # Whether it is a method of the connection's operations, passed as its first argument.
    of_operations: bool
    expression: Expression


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """The SQL of a query to one database; ``fields`` are those of its columns, in order."""

    alias: str
    sql: str
    fields: tuple[Field[Any, Any] | None, ...]
    _converters: tuple[_Converter, ...]

    def run(self, values: Sequence[Any]) -> Iterable[Sequence[Any]]:
        """Return the rows for (prepared) ``values``, converted by the ORM. Raises DatabaseError."""
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


# By name and database alias; None if the ORM itself has to run the query.
_compiled: Final[dict[tuple[Hashable, str], CompiledQuery | None]] = {}
# Settings change at run time only in tests.
setting_changed.connect(lambda **changed: _compiled.clear(), weak=False)


def compiled(
    name: Hashable, alias: str, values: Sequence[object], make: Callable[[], QuerySet[Any, Any]]
) -> CompiledQuery | None:
    """
    Return the query ``name`` for a database; it is compiled on first use.

    ``make`` returns it with ``values`` as its only parameters, in order. None if it has other
    parameters, or if the backend's compiler does more than write SQL.
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
