from __future__ import annotations

import datetime
import decimal
import ipaddress
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Optional

import pytest
from jsonschema import Draft202012Validator
from pydantic import Field

from mcp_bridge.schemas import input_schema
from tests.conftest import label
from tests.schemas import examples as ex
from tests.serving import taking

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
POINT = {
    "type": "object",
    "properties": {"x": INTEGER, "y": {**INTEGER, "default": 0}},
    "required": ["x"],
    "additionalProperties": False,
}
BOOK = {
    "type": "object",
    "description": "A book.",
    "properties": {
        "title": {**STRING, "maxLength": 5, "description": "its title"},
        "year": {"type": ["integer", "null"], "default": None},
    },
    "required": ["title"],
}
CARD = {
    "type": "object",
    "properties": {"method": {**STRING, "const": "card"}, "amount": INTEGER},
    "required": ["method", "amount"],
}
CASH = {
    "type": "object",
    "properties": {"method": {**STRING, "const": "cash"}, "kind": STRING},
    "required": ["method", "kind"],
}

TABLE: list[tuple[Any, dict[str, Any]]] = [
    # Primitives
    (int, INTEGER),
    (str, STRING),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (None, {"type": "null"}),
    (Any, {}),
    (object, {}),
    (bytes, {"type": "string", "contentEncoding": "base64"}),
    # Choices
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["a"], {"type": "string", "const": "a"}),
    (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
    (Literal[1, "a", None], {"enum": [1, "a", None]}),
    (ex.Colour, {"type": "string", "enum": ["red", "blue"]}),
    (ex.Level, {"type": "integer", "enum": [1, 2]}),
    (ex.Kind, {"type": "string", "enum": ["a", "b"]}),
    (ex.Mixed, {"enum": ["a", 2]}),
    # Formats
    (datetime.date, {"type": "string", "format": "date"}),
    (datetime.datetime, {"type": "string", "format": "date-time"}),
    (datetime.time, {"type": "string", "format": "time"}),
    (datetime.timedelta, {"type": "string", "format": "duration"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    (decimal.Decimal, {"anyOf": [{"type": "number"}, STRING]}),
    (ipaddress.IPv4Address, {"type": "string", "format": "ipv4"}),
    # Arrays
    (list, {"type": "array", "items": {}}),
    (list[int], {"type": "array", "items": INTEGER}),
    (Sequence[int], {"type": "array", "items": INTEGER}),
    (Iterable[int], {"type": "array", "items": INTEGER}),
    (tuple[int, ...], {"type": "array", "items": INTEGER}),
    (
        tuple[int, str],
        {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2},
    ),
    (set[int], {"type": "array", "items": INTEGER, "uniqueItems": True}),
    (list[list[str]], {"type": "array", "items": {"type": "array", "items": STRING}}),
    (list[ex.Point], {"type": "array", "items": POINT}),
    # Objects
    (dict, {"type": "object", "additionalProperties": True}),
    (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
    (dict[str, Any], {"type": "object", "additionalProperties": True}),
    (Mapping[str, ex.Point], {"type": "object", "additionalProperties": POINT}),
    (ex.Point, POINT),
    (ex.Book, BOOK),
    (
        ex.Described,
        {
            "type": "object",
            "description": "A thing with a text.",
            "properties": {
                "text": {**STRING, "maxLength": 5, "description": "the text"},
                "tags": {"type": "array", "items": STRING},
            },
            "required": ["text"],
            "additionalProperties": False,
        },
    ),
    (
        ex.Options,
        {
            "type": "object",
            "properties": {"a": INTEGER, "b": STRING},
            "required": ["a"],
            "additionalProperties": False,
        },
    ),
    (
        ex.Closed,
        {
            "title": "A closed thing",
            "type": "object",
            "properties": {"a": INTEGER},
            "required": ["a"],
            "additionalProperties": False,
        },
    ),
    (
        ex.Named,
        {
            "type": "array",
            "prefixItems": [INTEGER, {**STRING, "default": "x"}],
            "minItems": 1,
            "maxItems": 2,
        },
    ),
    (
        ex.Page[int],
        {
            "type": "object",
            "properties": {"items": {"type": "array", "items": INTEGER}},
            "required": ["items"],
        },
    ),
    # Unions
    (int | None, {"type": ["integer", "null"]}),
    (Optional[str], {"type": ["string", "null"]}),  # noqa: UP045
    (list[int] | None, {"type": ["array", "null"], "items": INTEGER}),
    (ex.Point | None, {**POINT, "type": ["object", "null"]}),
    (datetime.date | None, {"type": ["string", "null"], "format": "date"}),
    (Literal["a", "b"] | None, {"type": ["string", "null"], "enum": ["a", "b", None]}),
    (Literal["a"] | None, {"type": ["string", "null"], "enum": ["a", None]}),
    (ex.Colour | None, {"type": ["string", "null"], "enum": ["red", "blue", None]}),
    (int | str, {"anyOf": [INTEGER, STRING]}),
    (int | str | None, {"anyOf": [INTEGER, STRING, {"type": "null"}]}),
    (ex.Point | ex.Book, {"anyOf": [POINT, BOOK]}),
    (ex.Card | ex.Cash, {"anyOf": [CARD, CASH]}),
    (ex.Payment, {"oneOf": [CARD, CASH]}),
    (list[ex.Payment], {"type": "array", "items": {"oneOf": [CARD, CASH]}}),
    # Annotated
    (Annotated[int, "how many"], {**INTEGER, "description": "how many"}),
    (Annotated[int, Field(description="how many")], {**INTEGER, "description": "how many"}),
    (Annotated[int, Field(ge=1, le=5)], {**INTEGER, "minimum": 1, "maximum": 5}),
    (Annotated[int, "first", "second"], {**INTEGER, "description": "first"}),
    (
        Annotated[int, "text", Field(gt=0)],
        {**INTEGER, "exclusiveMinimum": 0, "description": "text"},
    ),
    (Annotated[int | None, Field(ge=1)], {"type": ["integer", "null"], "minimum": 1}),
    (
        Annotated[str, Field(pattern="^a", min_length=1)],
        {**STRING, "pattern": "^a", "minLength": 1},
    ),
    (Annotated[list[int], Field(max_length=2)], {"type": "array", "items": INTEGER, "maxItems": 2}),
    (Annotated[ex.Point, "where"], {**POINT, "description": "where"}),
    (
        Annotated[int, Field(title="How many", examples=[3])],
        {**INTEGER, "title": "How many", "examples": [3]},
    ),
    (
        Annotated[dict[str, Annotated[int, Field(ge=0)]], "counts"],
        {
            "type": "object",
            "additionalProperties": {**INTEGER, "minimum": 0},
            "description": "counts",
        },
    ),
]


@pytest.mark.parametrize(("hint", "expected"), TABLE, ids=[str(hint) for hint, _ in TABLE])
def test_hint_becomes_a_schema(hint: Any, expected: dict[str, Any]) -> None:
    schema = input_schema(taking(hint))
    Draft202012Validator.check_schema(schema)
    assert schema == {
        "type": "object",
        "properties": {"value": expected},
        "required": ["value"],
        "additionalProperties": False,
    }


DEFAULTS: list[tuple[Any, Any, dict[str, Any]]] = [
    (int, 1, {**INTEGER, "default": 1}),
    (str, "", {**STRING, "default": ""}),
    (bool, False, {"type": "boolean", "default": False}),
    (int | None, None, {"type": ["integer", "null"], "default": None}),
    (ex.Colour, ex.Colour.RED, {"type": "string", "enum": ["red", "blue"], "default": "red"}),
    (
        datetime.date,
        datetime.date(2024, 1, 2),
        {"type": "string", "format": "date", "default": "2024-01-02"},
    ),
    (list[int], [1], {"type": "array", "items": INTEGER, "default": [1]}),
    (tuple[int, ...], (), {"type": "array", "items": INTEGER, "default": []}),
    (ex.Point, ex.Point(1, 2), {**POINT, "default": {"x": 1, "y": 2}}),
    # A default of another type than the hint, or one that is no JSON, makes it optional still.
    (int, None, {**INTEGER, "default": None}),
    (Any, object(), {}),
    (Annotated[int, Field(ge=1)], 5, {**INTEGER, "minimum": 1, "default": 5}),
]


@pytest.mark.parametrize(("hint", "default", "expected"), DEFAULTS, ids=label)
def test_default_makes_a_parameter_optional(
    hint: Any, default: Any, expected: dict[str, Any]
) -> None:
    function = taking(hint)
    function.__defaults__ = (default,)  # type: ignore[attr-defined]
    schema = input_schema(function)
    Draft202012Validator.check_schema(schema)
    assert schema["properties"] == {"value": expected}
    assert "required" not in schema


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    assert input_schema(lambda: None) == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_a_parameter_without_a_hint_takes_any_value() -> None:
    assert input_schema(lambda value: None)["properties"] == {"value": {}}


def test_required_are_the_parameters_without_a_default_in_their_order() -> None:
    def function(b: int, a: int, c: int = 1, *, d: int, e: int = 2) -> None: ...

    schema = input_schema(function)
    assert schema["required"] == ["b", "a", "d"]
    assert list(schema["properties"]) == ["b", "a", "c", "d", "e"]


def test_a_text_on_one_parameter_is_on_no_other() -> None:
    def function(
        first: Annotated[ex.Point, "from"],
        second: Annotated[ex.Point, "to"],
        third: ex.Point,
        fourth: Annotated[str, "text"],
        fifth: str,
    ) -> None: ...

    assert input_schema(function)["properties"] == {
        "first": {**POINT, "description": "from"},
        "second": {**POINT, "description": "to"},
        "third": POINT,
        "fourth": {**STRING, "description": "text"},
        "fifth": STRING,
    }


def titles(schema: Any) -> list[str]:
    """Every title in a schema; a property may be called so as well."""
    if isinstance(schema, list):
        return [title for each in schema for title in titles(each)]
    if not isinstance(schema, dict):
        return []
    own = [schema["title"]] if isinstance(schema.get("title"), str) else []
    return own + [title for each in schema.values() for title in titles(each)]


def test_schemas_hold_no_generated_titles() -> None:
    def function(some_name: ex.Book, other_name: ex.Forest, kind: ex.Colour) -> None: ...

    assert titles(input_schema(function)) == []


def test_schemas_hold_the_titles_that_were_given() -> None:
    assert titles(input_schema(taking(ex.Closed))) == ["A closed thing"]
