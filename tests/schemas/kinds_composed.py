"""Arrays, objects and unions of other kinds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Optional

from pydantic import Field

from tests.schemas import examples as ex
from tests.schemas.kinds import INTEGER, LEAP, NUMBER, STRING, Kind, nullable, same
from tests.schemas.kinds_classes import BLUE, BOOK, CARD, CASH, NAMED, POINT, RED

NULL: dict[str, Any] = {"type": "null"}
INTEGERS: dict[str, Any] = {"type": "array", "items": INTEGER}

ARRAYS = [
    Kind(
        hint=list,
        schema={"type": "array", "items": {}},
        taken=same([], [1, "a", None]),
        refused=["a", {}],
    ),
    Kind(hint=list[int], schema=INTEGERS, taken=[([1.0, 2], [1, 2])], refused=[["1"], 1, None]),
    Kind(hint=Sequence[int], schema=INTEGERS, taken=same([1, 1]), refused=["1", [None]]),
    Kind(hint=Iterable[int], schema=INTEGERS, taken=same([1]), refused=[["a"], "a"]),
    Kind(
        hint=list[list[str]],
        schema={"type": "array", "items": {"type": "array", "items": STRING}},
        taken=same([["a"], []]),
        refused=[["a"], [[1]]],
    ),
    Kind(
        hint=list[ex.Point],
        schema={"type": "array", "items": POINT},
        taken=[([{"x": 1}], [ex.Point(1)])],
        refused=[[{"y": 1}], {"x": 1}],
    ),
    Kind(hint=tuple[int, ...], schema=INTEGERS, taken=[([1, 2], (1, 2))], refused=[[1, "a"]]),
    Kind(
        hint=tuple[int, str],
        schema={"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2},
        taken=[([1, "a"], (1, "a"))],
        refused=[[1], [1, "a", 2], ["a", 1]],
    ),
    Kind(
        hint=set[int],
        schema={**INTEGERS, "uniqueItems": True, "maxItems": 10_000},
        taken=[([2, 1], {1, 2}), ([], set())],
        refused=[[1, 1], ["1"]],
    ),
    Kind(
        hint=frozenset[str],
        schema={"type": "array", "items": STRING, "uniqueItems": True},
        taken=[(["a"], frozenset("a"))],
        refused=[["a", "a"]],
    ),
    Kind(
        hint=Annotated[set[int], Field(min_length=2)],
        schema={**INTEGERS, "uniqueItems": True, "minItems": 2, "maxItems": 10_000},
        taken=[([1, 2], {1, 2})],
        refused=[[1], [1, 1]],
    ),
]

OBJECTS = [
    Kind(
        hint=dict,
        schema={"type": "object", "additionalProperties": True},
        taken=same({}, {"a": [1]}),
        refused=[[], "{}"],
    ),
    Kind(
        hint=dict[str, int],
        schema={"type": "object", "additionalProperties": INTEGER},
        taken=[({"a": 1.0}, {"a": 1})],
        refused=[{"a": "1"}, []],
    ),
    Kind(
        hint=Mapping[str, ex.Point],
        schema={"type": "object", "additionalProperties": POINT},
        taken=[({"a": {"x": 1}}, {"a": ex.Point(1)})],
        refused=[{"a": 1}],
    ),
    Kind(
        hint=dict[ex.Colour, int],
        schema={
            "type": "object",
            "additionalProperties": INTEGER,
            "propertyNames": {**STRING, "enum": ["red", "blue"]},
        },
        taken=[({"red": 1}, {ex.Colour.RED: 1})],
        refused=[{"green": 1}],
    ),
    Kind(
        hint=dict[Literal[ex.Colour.RED], int],
        schema={
            "type": "object",
            "additionalProperties": INTEGER,
            "propertyNames": {"const": "red"},
        },
        taken=[({"red": 1}, {ex.Colour.RED: 1})],
        refused=[{"blue": 1}],
    ),
    Kind(
        hint=Annotated[dict[str, Annotated[int, Field(ge=0)]], "counts"],
        schema={
            "type": "object",
            "additionalProperties": {**INTEGER, "minimum": 0},
            "description": "counts",
        },
        taken=same({"a": 0}),
        refused=[{"a": -1}],
    ),
]

UNIONS = [
    Kind(
        hint=int | None,
        schema=nullable(INTEGER),
        taken=same(1, None),
        refused=["", "null"],
    ),
    Kind(hint=Optional[str], schema=nullable(STRING), taken=same("", None)),  # noqa: UP045
    Kind(
        hint=Annotated[int | None, Field(ge=1)],
        schema=nullable({**INTEGER, "minimum": 1}),
        taken=same(1, None),
        refused=[0],
    ),
    Kind(
        hint=list[int] | None,
        schema=nullable({"type": "array", "items": INTEGER}),
        taken=same([1], None),
        refused=[["a"]],
    ),
    Kind(
        hint=ex.Point | None,
        schema=nullable(POINT),
        taken=[({"x": 1}, ex.Point(1)), (None, None)],
        refused=[{}],
    ),
    Kind(
        hint=dt.date | None,
        schema=nullable({**STRING, "format": "date"}),
        taken=[("2024-02-29", LEAP), (None, None)],
        refused=[""],
    ),
    Kind(
        hint=Literal["a"] | None,
        schema=nullable({**STRING, "const": "a"}),
        taken=same("a", None),
        refused=["b"],
    ),
    Kind(
        hint=ex.Colour | None,
        schema=nullable({**STRING, "enum": ["red", "blue"]}),
        taken=[("red", ex.Colour.RED), (None, None)],
        refused=["None"],
    ),
    Kind(
        hint=int | str,
        schema={"anyOf": [INTEGER, STRING]},
        taken=same(1, "1"),
        refused=[None, 0.5, True],
    ),
    Kind(
        hint=int | float,
        schema={"anyOf": [INTEGER, NUMBER]},
        taken=same(1, 1.5),
        refused=["1"],
    ),
    Kind(hint=int | str | None, schema={"anyOf": [INTEGER, STRING, NULL]}, taken=same(None, 1)),
    Kind(
        hint=ex.Point | ex.Book,
        schema={"anyOf": [POINT, BOOK]},
        taken=[({"x": 1}, ex.Point(1)), ({"title": "t"}, ex.Book(title="t"))],
        refused=[{}, {"x": "1"}],
    ),
    # Distinguished by a Literal: with a discriminator exactly one fits
    Kind(
        hint=ex.Card | ex.Cash,
        schema={"anyOf": [CARD, CASH]},
        taken=[({"method": "cash", "kind": "x"}, ex.Cash(method="cash", kind="x"))],
        refused=[{"method": "cheque"}, {"method": "card", "kind": "x"}],
    ),
    Kind(
        hint=list[ex.Payment],
        schema={"type": "array", "items": {"oneOf": [CARD, CASH]}},
        taken=[([{"method": "card", "amount": 1}], [ex.Card(method="card", amount=1)])],
        refused=[[{"amount": 1}], [{"method": "cash", "amount": 1}]],
    ),
    Kind(
        hint=ex.Paint,
        schema={"oneOf": [RED, BLUE]},
        taken=[
            ({"colour": "red", "depth": 1}, ex.Red(colour=ex.Colour.RED, depth=1)),
            ({"colour": "blue"}, ex.Blue(colour=ex.Colour.BLUE)),
        ],
        refused=[{"colour": "red"}, {"colour": "RED"}, {}],
    ),
    Kind(
        hint=list[ex.Named | int],
        schema={"type": "array", "items": {"anyOf": [NAMED, INTEGER]}},
        taken=[([[1, "a"], 2], [ex.Named(1, "a"), 2])],
        refused=[[[]], ["a"]],
    ),
]
