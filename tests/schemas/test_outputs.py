from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, PlainSerializer, computed_field

from mcp_bridge.calls.results import encoder, write
from mcp_bridge.protocol.content import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from mcp_bridge.schemas import Outputs
from tests.schemas import examples as ex
from tests.schemas.kinds import nullable
from tests.support.schemas import output_schema
from tests.support.serving import giving
from tests.support.values import label

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
POINT = {
    "type": "object",
    "properties": {"x": INTEGER, "y": {**INTEGER, "default": 0}},
    "required": ["x"],
    "additionalProperties": False,
}


class Photo(BaseModel):
    data: bytes


@dataclass
class Line:
    start: ex.Point
    end: ex.Point


class Squared(BaseModel):
    side: int

    @computed_field
    @property
    def area(self) -> int:
        return self.side**2


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (ex.Point, POINT),
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
            ex.Card,
            {
                "type": "object",
                "properties": {"method": {**STRING, "const": "card"}, "amount": INTEGER},
                "required": ["method", "amount"],
            },
        ),
        (
            Squared,
            {
                "type": "object",
                "properties": {"side": INTEGER, "area": {**INTEGER, "readOnly": True}},
                "required": ["side", "area"],
            },
        ),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (Mapping[str, ex.Point], {"type": "object", "additionalProperties": POINT}),
        (dict, {"type": "object", "additionalProperties": True}),
        (Annotated[ex.Point, "where"], POINT),
    ],
    ids=label,
)
def test_object_result_is_not_wrapped(hint: Any, expected: dict[str, Any]) -> None:
    schema = output_schema(giving(hint, None))
    assert schema == expected
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (int, INTEGER),
        (str, STRING),
        (bool, {"type": "boolean"}),
        (float, {"type": "number"}),
        (list[int], {"type": "array", "items": INTEGER}),
        (list[ex.Point], {"type": "array", "items": POINT}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2},
        ),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (ex.Colour, {"type": "string", "enum": ["red", "blue"]}),
        (datetime.date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (decimal.Decimal, {**STRING, "pattern": r"^-?[0-9]+(\.[0-9]+)?(E[+-][0-9]+)?$"}),
        (int | None, nullable(INTEGER)),
        (ex.Point | None, nullable(POINT)),
        (int | str, {"anyOf": [INTEGER, STRING]}),
        (
            ex.Point | dict[str, int],
            {"anyOf": [POINT, {"type": "object", "additionalProperties": INTEGER}]},
        ),
        (Annotated[int, Field(ge=1)], {**INTEGER, "minimum": 1}),
    ],
    ids=label,
)
def test_non_object_result_is_described_in_its_wrapper(hint: Any, expected: dict[str, Any]) -> None:
    schema = output_schema(giving(hint, None))
    assert schema == {
        "type": "object",
        "properties": {"result": expected},
        "required": ["result"],
        "additionalProperties": False,
    }
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    "hint",
    [
        None,
        Any,
        object,
        TextContent,
        ImageContent,
        AudioContent,
        ResourceLink,
        EmbeddedResource,
        CallToolResult,
        list[TextContent],
        list[TextContent | ImageContent],
        tuple[TextContent, ImageContent],
        TextContent | None,
        list[TextContent] | CallToolResult,
        Annotated[ImageContent, "a picture"],
    ],
    ids=label,
)
def test_unstructured_results_have_no_schema(hint: Any) -> None:
    assert output_schema(giving(hint, None)) is None


@pytest.mark.parametrize(
    "docstring",
    [
        "Find.\n\n:returns: the place",
        "Find.\n\nReturns:\n    the place",
        "Find.\n\nReturns\n-------\nPoint\n    the place",
    ],
    ids=["reST", "Google", "NumPy"],
)
def test_docstring_describes_the_result(docstring: str) -> None:
    place, number = giving(ex.Point, None), giving(int, None)
    place.__doc__ = number.__doc__ = docstring
    assert output_schema(place) == {**POINT, "description": "the place"}
    wrapped = output_schema(number) or {}
    assert wrapped["properties"]["result"] == {**INTEGER, "description": "the place"}


def test_missing_return_hint_has_no_schema() -> None:
    assert output_schema(lambda: 1) is None


def test_nan_is_not_written_as_null_beside_bytes() -> None:
    write = encoder(Outputs(tuple[bytes, float | None]))
    assert write((b"a", None)).structured == b'{"result":["YQ==",null]}'
    with pytest.raises(ValueError, match="finite number"):
        write((b"a", float("nan")))


def test_write_only_types_are_described_as_written() -> None:
    named = Annotated[Callable[[], Any], PlainSerializer(lambda each: each.__name__, str)]
    outputs = Outputs(named)
    assert (outputs.errors, (outputs.schema or {})["properties"]) == ([], {"result": STRING})
    assert encoder(outputs)(test_missing_return_hint_has_no_schema).structured == (
        b'{"result":"test_missing_return_hint_has_no_schema"}'
    )


def test_dataclass_is_described_in_every_position() -> None:
    line = {
        "type": "object",
        "properties": {"start": POINT, "end": POINT},
        "required": ["start", "end"],
        "additionalProperties": False,
    }
    for hint, schemas in [
        (tuple[Line, ex.Point], [line, POINT]),
        (tuple[ex.Point, Line | None], [POINT, nullable(line)]),
    ] * 2:
        outputs = Outputs(hint)
        assert (outputs.schema or {})["properties"]["result"]["prefixItems"] == schemas
    written = encoder(outputs)((ex.Point(1), Line(ex.Point(2), ex.Point(3)))).structured
    assert json.loads(written or b"")["result"][1]["end"] == {"x": 3, "y": 0}


@dataclass
class Step:
    act: Callable[[], int]
    following: Step | None = None


@dataclass
class Plan:
    steps: list[Step]


def test_non_json_definition_is_reported_with_its_reason() -> None:
    for hint in (Step, Plan):
        (error,) = Outputs(hint).errors
        assert "Cannot generate a JsonSchema for core_schema.CallableSchema" in error


def test_bytes_in_nested_models_use_standard_base64() -> None:
    plain, _ = write(Outputs(list[Photo]), [Photo(data=b"\xfb\xff\xfe")])
    assert json.loads(plain) == [{"data": "+//+"}]
