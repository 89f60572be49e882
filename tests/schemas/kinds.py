"""
Every kind of hint: its schema, accepted values as a procedure receives them, refused values.

Primitives, choices and formats are here; the other files of the table are ``kinds_*.py``.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal

from annotated_types import Gt, Len
from django.db.models import IntegerChoices, TextChoices
from pydantic import AwareDatetime, Field, NaiveDatetime

from tests.schemas import examples as ex

STRING: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"type": "number"}
LONG = "x" * 6
NUMERAL = r"^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?)$"
CLOCK = r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?$"
NAIVE = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[Tt ]{CLOCK[1:]}"
ID = "12345678-1234-5678-1234-567812345678"
LEAP = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """
    One row: ``taken`` are pairs of a JSON value and the Python value of it.

    If a kind ``differs``, jsonschema accepts more or less than this package: docs/tools/schemas.md
    lists why.
    """

    hint: Any
    schema: dict[str, Any]
    taken: list[tuple[Any, Any]]
    refused: list[Any] = field(default_factory=list)
    differs: bool = False


class Size(TextChoices):
    SMALL = "s", "Small"
    LARGE = "l", "Large"


class Rank(IntegerChoices):
    FIRST = 1, "First"
    LAST = 2, "Last"


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a value or null; a description is beside the branches."""
    beside = {key: schema[key] for key in ("title", "description") if key in schema}
    branch = {key: value for key, value in schema.items() if key not in beside}
    return {"anyOf": [branch, {"type": "null"}], **beside}


def same(*values: Any) -> list[tuple[Any, Any]]:
    """Return values that a procedure receives as they were sent."""
    return [(value, value) for value in values]


PRIMITIVES = [
    Kind(hint=int, schema=INTEGER, taken=[*same(0, -1, 2**60), (2.0, 2)], refused=[0.5, "1", True]),
    Kind(hint=float, schema=NUMBER, taken=[(1, 1.0), (1.5, 1.5)], refused=["1", False, None]),
    Kind(hint=bool, schema={"type": "boolean"}, taken=same(True, False), refused=[0, 1, "true"]),
    Kind(hint=str, schema=STRING, taken=same("", "é", "\x01"), refused=[1, None, ["a"]]),
    Kind(hint=None, schema={"type": "null"}, taken=same(None), refused=[0, "", "null"]),
    Kind(hint=Any, schema={}, taken=same(None, 1.5, "a", [{"a": [None]}])),
    Kind(hint=object, schema={}, taken=same(True, {})),
    # Constraints, by pydantic's Field or by annotated-types
    Kind(
        hint=Annotated[int, Field(ge=1, le=5)],
        schema={**INTEGER, "minimum": 1, "maximum": 5},
        taken=same(1, 5),
        refused=[0, 6, "1"],
    ),
    Kind(
        hint=Annotated[int, "text", Field(gt=0)],
        schema={**INTEGER, "exclusiveMinimum": 0, "description": "text"},
        taken=same(1),
        refused=[0],
    ),
    Kind(
        hint=Annotated[int, Gt(0)],
        schema={**INTEGER, "exclusiveMinimum": 0},
        taken=same(1),
        refused=[0],
    ),
    Kind(
        hint=Annotated[float, Field(lt=1)],
        schema={**NUMBER, "exclusiveMaximum": 1},
        taken=[(0, 0.0), (0.5, 0.5)],
        refused=[1],
    ),
    Kind(
        hint=Annotated[int, Field(multiple_of=2)],
        schema={**INTEGER, "multipleOf": 2},
        taken=same(0, 4),
        refused=[1],
    ),
    Kind(
        hint=Annotated[str, Field(max_length=1)],
        schema={**STRING, "maxLength": 1},
        taken=same("", "é"),
        refused=["ab"],
    ),
    Kind(
        hint=Annotated[str, Field(pattern="^a", min_length=1)],
        schema={**STRING, "pattern": "^a", "minLength": 1},
        taken=same("a", "ab"),
        refused=["", "b"],
    ),
    Kind(
        hint=Annotated[list[int], Len(1, 2)],
        schema={"type": "array", "items": INTEGER, "minItems": 1, "maxItems": 2},
        taken=same([1], [1, 2]),
        refused=[[], [1, 2, 3]],
    ),
    Kind(
        hint=Annotated[dict[str, int], Field(max_length=1)],
        schema={"type": "object", "additionalProperties": INTEGER, "maxProperties": 1},
        taken=same({}, {"a": 1}),
        refused=[{"a": 1, "b": 2}],
    ),
    # Texts and examples
    Kind(hint=Annotated[int, "how many"], schema={**INTEGER, "description": "how many"}, taken=[]),
    Kind(hint=Annotated[int, "one", "two"], schema={**INTEGER, "description": "one"}, taken=[]),
    Kind(
        hint=Annotated[int, Field(description="how many", title="Number", examples=[3])],
        schema={**INTEGER, "description": "how many", "title": "Number", "examples": [3]},
        taken=same(3),
    ),
]

CHOICES = [
    Kind(
        hint=Literal["a", "b"],
        schema={**STRING, "enum": ["a", "b"]},
        taken=same("a", "b"),
        refused=["c", "A", None],
    ),
    Kind(hint=Literal["a"], schema={**STRING, "const": "a"}, taken=same("a"), refused=["b"]),
    Kind(hint=Literal[1, 2], schema={**INTEGER, "enum": [1, 2]}, taken=same(1), refused=[True, 3]),
    Kind(
        hint=Literal[True], schema={"type": "boolean", "const": True}, taken=same(True), refused=[1]
    ),
    Kind(
        hint=Literal[1, "a", None],
        schema=nullable({"enum": [1, "a"]}),
        taken=same(1, "a", None),
        refused=["1", True],
    ),
    Kind(
        hint=ex.Colour,
        schema={**STRING, "enum": ["red", "blue"]},
        taken=[("red", ex.Colour.RED)],
        refused=["RED", "green", 1],
    ),
    Kind(
        hint=ex.Level,
        schema={**INTEGER, "enum": [1, 2]},
        taken=[(1, ex.Level.LOW)],
        refused=[3, "1", True],
    ),
    Kind(
        hint=ex.Kind,
        schema={**STRING, "enum": ["a", "b"]},
        taken=[("a", ex.Kind.A)],
        refused=["A", 1],
    ),
    Kind(
        hint=ex.Mixed,
        schema={"enum": ["a", 2]},
        taken=[("a", ex.Mixed.WORD), (2, ex.Mixed.NUMBER)],
        refused=["2", "WORD"],
    ),
    Kind(
        hint=Literal[ex.Colour.RED],
        schema={**STRING, "const": "red"},
        taken=[("red", ex.Colour.RED)],
        refused=["blue", "RED", None],
    ),
    Kind(
        hint=Literal[ex.Colour.RED, ex.Kind.A, ex.Level.LOW, "RED", None],
        schema=nullable({"enum": ["red", "a", 1, "RED"]}),
        taken=[("red", ex.Colour.RED), ("a", ex.Kind.A), (1, ex.Level.LOW), *same("RED", None)],
        refused=["blue", "b", 2, True],
    ),
    Kind(
        hint=ex.Written,
        schema={"anyOf": [{"enum": ["2024-02-29", [1, 2]]}, {"type": "null"}]},
        taken=[
            *((None, ex.Written.NONE), ("2024-02-29", ex.Written.DAY), ([1, 2], ex.Written.PAIR))
        ],
        refused=["2024-03-01", [1], [2, 1], {}, [True, 2]],
    ),
    Kind(
        hint=Literal[ex.Written.NONE, ex.Written.PAIR],
        schema=nullable({"enum": [[1, 2]]}),
        taken=[(None, ex.Written.NONE), ([1, 2], ex.Written.PAIR)],
        refused=["2024-02-29"],
    ),
    Kind(
        hint=Size,
        schema={**STRING, "enum": ["s", "l"], "description": "s: Small; l: Large."},
        taken=[("s", Size.SMALL)],
        refused=["Small", "SMALL"],
    ),
    Kind(
        hint=Rank,
        schema={**INTEGER, "enum": [1, 2], "description": "1: First; 2: Last."},
        taken=[(2, Rank.LAST)],
        refused=["2", 3],
    ),
]

# Times without an offset are of the site's time zone, which is UTC in the tests.
FORMATS = [
    Kind(
        hint=dt.date,
        schema={**STRING, "format": "date"},
        taken=[("2024-02-29", LEAP)],
        refused=["2023-02-29", "2024-2-29", "2024-02-29T00:00:00", 0, "tomorrow"],
    ),
    Kind(
        hint=dt.time,
        schema={**STRING, "pattern": CLOCK},
        taken=[("10:30:00", dt.time(10, 30)), ("10:30:00.5", dt.time(10, 30, 0, 500000))],
        refused=["10:30", "25:00:00", 0, "10:30:00Z", "10:30:00+02:00"],
    ),
    Kind(
        hint=dt.datetime,
        schema={**STRING, "format": "date-time"},
        taken=[("2024-02-29T12:00:00Z", NOON), ("2024-02-29T12:00:00", NOON)],
        refused=["2024-02-29", "2024-02-29T12:00", 0],
        differs=True,
    ),
    Kind(
        hint=AwareDatetime,
        schema={**STRING, "format": "date-time"},
        taken=[("2024-02-29T13:00:00+01:00", NOON)],
        refused=["2024-02-29T12:00:00", "noon"],
        differs=True,
    ),
    Kind(
        hint=NaiveDatetime,
        schema={**STRING, "pattern": NAIVE},
        taken=[("2024-02-29T12:00:00.5", dt.datetime(2024, 2, 29, 12, 0, 0, 500000))],
        refused=["2024-02-29T12:00:00Z", "2024-02-29"],
        differs=True,
    ),
    Kind(
        hint=dt.timedelta,
        schema={**STRING, "format": "duration"},
        taken=[("P1DT2H", dt.timedelta(days=1, hours=2))],
        refused=["1 day", 60],
        differs=True,
    ),
    Kind(
        hint=uuid.UUID,
        schema={**STRING, "format": "uuid"},
        taken=[(ID, uuid.UUID(ID))],
        refused=[ID.replace("-", ""), "x", 1],
    ),
    Kind(
        hint=Decimal,
        schema={"anyOf": [NUMBER, {**STRING, "pattern": NUMERAL, "maxLength": 1000}]},
        taken=[
            *[("1.10", Decimal("1.10")), ("-1e5", Decimal("-1e5")), (".5", Decimal("0.5"))],
            *[(1, Decimal(1)), (0.1, Decimal("0.1"))],
        ],
        refused=["", "one", "1,5", " 1", "NaN", "Infinity", True, None],
    ),
    Kind(
        hint=Annotated[Decimal, Field(ge=0, max_digits=3, decimal_places=2)],
        schema={
            "anyOf": [
                {**NUMBER, "minimum": 0},
                {
                    **STRING,
                    "maxLength": 1000,
                    "pattern": r"^[+-]?(?:0*[0-9](?:\.[0-9]{0,2}0*)?|0*[0-9]?\.[0-9]{1,2}0*"
                    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]{1,4})$",
                },
            ]
        },
        taken=[("1.10", Decimal("1.10")), (1, Decimal(1))],
        refused=["1.234", "10.00", -1, "-1"],
        differs=True,
    ),
    Kind(
        hint=bytes,
        schema={**STRING, "contentEncoding": "base64"},
        taken=[("", b""), ("+/+/", b"\xfb\xff\xbf"), ("-_-_", b"\xfb\xff\xbf"), ("YQ", b"a")],
        refused=["no base64", 1],
        differs=True,
    ),
    Kind(
        hint=ipaddress.IPv4Address,
        schema={**STRING, "format": "ipv4"},
        taken=[("127.0.0.1", ipaddress.IPv4Address("127.0.0.1"))],
        refused=["localhost", 1],
    ),
]
