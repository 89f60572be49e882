"""The kinds of parameters: how each is sent, and which cannot be."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import attrs
import pytest
from pydantic import BaseModel, Field, FilePath

from mcp_bridge.calls.arguments import typed_checker
from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.schemas import Inputs, Signature
from mcp_bridge.testing.serving import serve
from tests.schemas import examples as ex
from tests.schemas.kinds import INTEGER, STRING
from tests.schemas.kinds_classes import POINT
from tests.support.serving import giving, messages, names, served, taking
from tests.support.values import label

pytestmark = pytest.mark.django_db

DAY = {**STRING, "format": "date"}


def ordinary(a: int, b: int = 2) -> Any:
    return a, b


def by_position(a: int, b: int = 2, /, c: int = 3) -> Any:
    return a, b, c


def by_keyword(*, a: int, b: int = 2) -> Any:
    return a, b


def any_keywords(a: int, **rest: Any) -> Any:
    return a, rest


def points(place: ex.Point, **rest: ex.Point) -> Any:
    return place, rest


def unhinted(a, b=None):  # type: ignore[no-untyped-def]
    return a, b


def nothing() -> Any:
    return ()


# The function, its properties, whether it takes others, and calls: arguments and result.
SIGNATURES: list[tuple[Callable[..., Any], Any, Any, list[tuple[Any, Any]], list[Any]]] = [
    (
        ordinary,
        {"a": INTEGER, "b": {**INTEGER, "default": 2}},
        False,
        [({"a": 1}, (1, 2)), ({"a": 1, "b": 1}, (1, 1))],
        [{}, {"b": 1}, {"a": 1, "c": 1}, {"a": "1"}],
    ),
    (
        by_position,
        {"a": INTEGER, "b": {**INTEGER, "default": 2}, "c": {**INTEGER, "default": 3}},
        False,
        [({"a": 1}, (1, 2, 3)), ({"a": 1, "c": 5}, (1, 2, 5)), ({"b": 4, "a": 1}, (1, 4, 3))],
        [{"b": 1}],
    ),
    (
        by_keyword,
        {"a": INTEGER, "b": {**INTEGER, "default": 2}},
        False,
        [({"b": 3, "a": 1}, (1, 3))],
        [{"b": 3}],
    ),
    (
        any_keywords,
        {"a": INTEGER},
        True,
        [({"a": 1, "x": [None]}, (1, {"x": [None]}))],
        [{"x": 1}],
    ),
    (
        points,
        {"place": POINT},
        POINT,
        [({"place": {"x": 1}, "p0": {"x": 2}}, (ex.Point(1), {"p0": ex.Point(2)}))],
        [{"place": {"x": 1, "z": 1}}, {"place": {"x": 1}, "more": {"x": 1, "z": 1}}],
    ),
    (unhinted, {"a": {}, "b": {"default": None}}, False, [({"a": "x"}, ("x", None))], [{}]),
    (nothing, {}, False, [({}, ())], [{"a": 1}]),
]


@pytest.mark.parametrize(
    ("function", "properties", "more", "calls", "refused"), SIGNATURES, ids=label
)
def test_signature_matches_its_row(
    function: Any, properties: Any, more: Any, calls: Any, refused: Any
) -> None:
    signature = Signature.of(function)
    inputs = Inputs(signature)
    assert inputs.schema["properties"] == properties
    assert inputs.schema["additionalProperties"] == more
    needed = [name for name, each in properties.items() if "default" not in each]
    assert inputs.schema.get("required", []) == needed
    check = typed_checker(inputs)
    for arguments, wanted in calls:
        values = check(arguments)
        positional = [values.pop(*each) for each in signature.positional_only.items()]
        assert function(*positional, **values) == wanted
    for arguments in refused:
        with pytest.raises(InvalidArguments):
            check(arguments)


# A hint, a default of it, and the schema.
DEFAULTS: list[tuple[Any, Any, dict[str, Any]]] = [
    (int, 1, {**INTEGER, "default": 1}),
    (str, "", {**STRING, "default": ""}),
    (bool, False, {"type": "boolean", "default": False}),
    (int | None, None, {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}),
    (bytes, b"\xfb", {**STRING, "contentEncoding": "base64", "default": "+w=="}),
    (ex.Colour, ex.Colour.RED, {**STRING, "enum": ["red", "blue"], "default": "red"}),
    (dt.date, dt.date(2024, 1, 2), {**DAY, "default": "2024-01-02"}),
    (list[int], [1], {"type": "array", "items": INTEGER, "default": [1]}),
    (tuple[int, ...], (), {"type": "array", "items": INTEGER, "default": []}),
    (ex.Point, ex.Point(1, 2), {**POINT, "default": {"x": 1, "y": 2}}),
    (Annotated[int, Field(ge=1)], 5, {**INTEGER, "minimum": 1, "default": 5}),
    # A default of another type than the hint, or without a JSON form, still makes it optional.
    (int, None, {**INTEGER, "default": None}),
    (Any, object(), {}),
]


@pytest.mark.parametrize(("hint", "default", "expected"), DEFAULTS, ids=label)
def test_default_makes_a_parameter_optional(
    hint: Any, default: Any, expected: dict[str, Any]
) -> None:
    function: Any = taking(hint)
    function.__defaults__ = (default,)
    inputs = Inputs(Signature.of(function))
    assert inputs.schema["properties"] == {"value": expected}
    assert "required" not in inputs.schema
    # The function fills it in itself.
    assert typed_checker(inputs)({}) == {}


@attrs.define
class Kept:
    where: Path


@dataclasses.dataclass
class Deep:
    kept: list[Kept]


class Model(BaseModel):
    file: FilePath | None = None


PATHS = [Path, PurePosixPath, os.PathLike, os.PathLike[str], FilePath, Path | None, list[Path]]


@pytest.mark.parametrize("hint", [*PATHS, dict[str, Path], Model, Kept, Deep], ids=label)
def test_path_is_refused_by_a_check(hint: Any, settings: Any) -> None:
    serve(settings, taking(hint), ordinary)
    assert names() == ["ordinary"]
    (message,) = messages("mcp_bridge.E006")
    assert "its parameter 'value' contains a path, with which callers could access any" in message
    assert "use a str that names an allowed file" in message


def test_path_among_keywords_is_refused_by_a_check(settings: Any) -> None:
    def open_all(a: int, **files: Path) -> None:
        """Open all."""

    serve(settings, open_all)
    (message,) = messages("mcp_bridge.E006")
    assert "its **kwargs contains a path" in message


def test_any_positional_values_are_refused_by_a_check(settings: Any) -> None:
    def add(*numbers: int) -> None:
        """Add."""

    serve(settings, add)
    (message,) = messages("mcp_bridge.E006")
    assert "it takes *numbers, which JSON objects cannot provide" in message


def test_path_as_a_result_is_a_text(settings: Any) -> None:
    serve(settings, giving(Path, Path("/a")))
    assert served("give").output_schema is not None
