"""What jsonschema-rs says a quick yes to is what the bounded validator finds valid."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bridge.schemas.validation import quick
from mcp_bridge.schemas.validation.keywords import UncheckableError
from mcp_bridge.schemas.validation.quick import quick_check
from mcp_bridge.schemas.validation.validator import MAX_STEPS, SchemaValidator
from mcp_bridge.schemas.walk import SchemaDocument

pytest.importorskip("jsonschema_rs", reason="the extra fast is not installed")
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "300"))
NAMES = st.sampled_from(["a", "b", "é", ""])
BOUNDS = st.integers(-3, 3) | st.sampled_from([0.5, 1.0, 2**53 - 1])
SIZES = st.integers(0, 3)
TYPES = st.sampled_from(["object", "array", "integer", "string", "null", "number", "boolean"])
TEXTS = st.sampled_from(["", "a", "b", "é", "\U0001f600\U0001f600", "e\u0301"])
NUMBERS = st.integers(-4, 4) | st.floats() | st.integers() | st.sampled_from([1.0, 2**53, 2**64])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
)


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": st.booleans() | inner,
        "items": st.booleans() | inner,
        "enum": st.lists(TEXTS, min_size=1, unique=True),
        "const": TEXTS,
        "x-own": st.just({"a": 1}),
        **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems"], SIZES),
        **dict.fromkeys(["minProperties", "maxProperties"], SIZES),
        **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], BOUNDS),
    }
    return st.fixed_dictionaries({}, optional=members)


PLAIN = st.recursive(st.fixed_dictionaries({"type": TYPES}), schemas, max_leaves=6)


def quick_of(schema: dict[str, Any]) -> Any:
    return quick_check(schema, SchemaDocument(schema).subschemas, MAX_STEPS)


def slow_errors(schema: dict[str, Any], value: object, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as without:
        without.setattr(quick, "jsonschema_rs", None)
        return SchemaValidator(schema, "schema").errors(value)


@settings(max_examples=EXAMPLES, deadline=None)
@given(schema=PLAIN, values=st.lists(VALUES, min_size=1, max_size=5))
def test_a_quick_yes_is_right(schema: dict[str, Any], values: list[Any]) -> None:
    is_surely_valid = quick_of(schema)
    assert is_surely_valid is not None
    with pytest.MonkeyPatch.context() as patch:
        for value in values:
            errors = slow_errors(schema, value, patch)
            assert SchemaValidator(schema, "schema").errors(value) == errors
            assert not (is_surely_valid(value) and errors)


@pytest.mark.parametrize(
    "part",
    [{"pattern": "^a"}, {"format": "date"}, {"multipleOf": 0.1}, {"uniqueItems": True}, {"not": {}}]
    + [{"anyOf": [{}]}, {"$ref": "#"}, {"contains": {}}, {"enum": [1]}, {"const": [1]}]
    + [{"if": {}}, {"dependentRequired": {}}, {"minimum": 2**53}, {"propertyNames": {}}],
)
def test_what_is_not_read_alike_is_left_to_the_bounded_validator(part: dict[str, Any]) -> None:
    assert quick_of({"type": "object", "properties": {"a": {"items": part}}}) is None


@pytest.mark.parametrize(
    "value",
    [2**53, -(2**53), 2.0**53, math.nan, math.inf, (), ["a"] * MAX_STEPS, b""],
)
def test_of_unusual_values_the_bounded_validator_decides(value: Any) -> None:
    is_surely_valid = quick_of({"properties": {}})
    assert is_surely_valid is not None
    assert is_surely_valid({"a": ["a", 1, 2.5, None]})
    assert not is_surely_valid(value)
    assert not is_surely_valid({"a": [value]})


@pytest.mark.parametrize("size", [100, 10_000, 100_000])
def test_what_is_too_large_to_check_stays_too_large(size: int) -> None:
    schema = {"type": "object", "properties": {"a": {"items": {"type": "integer", "minimum": 0}}}}
    with pytest.MonkeyPatch.context() as patch:
        try:
            expected: Any = slow_errors(schema, {"a": [1] * size}, patch)
        except UncheckableError as why:
            expected = str(why)
    try:
        found: Any = SchemaValidator(schema, "schema").errors({"a": [1] * size})
    except UncheckableError as why:
        found = str(why)
    assert found == expected
