"""Explicit schemas accept the same values as plain jsonschema."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mcp_bridge.schemas.validation import SchemaValidator

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "50"))
NAMES = st.sampled_from(["a", "b"])
PATTERNS = st.sampled_from(["^a", "b$", "n_"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.0, 0.5])
    | st.sampled_from(["", "a", "ab", "b1"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "ab", "n_"]), inner, max_size=3)
    ),
    max_leaves=6,
)
# One of each kind of reference; in "own" the pointers differ from those at the root.
DEFINITIONS = {
    "a b": {"type": "integer"},
    "listed": {"$anchor": "listed", "type": "array", "items": {"$ref": "#/$defs/a%20b"}},
    "member": {"$dynamicAnchor": "member", "properties": {"a": {"$ref": "#listed"}}},
    "own": {
        "$id": "urn:own",
        "$defs": {"a b": {"type": "string"}},
        "properties": {"b": {"$ref": "#/$defs/a%20b"}},
        "items": {"$ref": "urn:own"},
        "unevaluatedProperties": False,
    },
    "always": True,
    "never": False,
}
REFERENCES = st.sampled_from(
    ["#/$defs/a%20b", "#listed", "#member", "urn:own", "urn:own#/$defs/a%20b"]
    + ["#/$defs/always", "#/$defs/never"]
)
TYPES = st.sampled_from(["object", "array", "integer", "string", "null", "number", "boolean"])


def keywords(inner: Any) -> Any:
    """Return schemas of one keyword, or of keywords that depend on each other."""
    members = st.dictionaries(NAMES, inner, max_size=2)
    several = st.lists(inner, min_size=1, max_size=2)
    kinds: list[dict[str, Any]] = [
        {"enum": st.lists(VALUES, min_size=1, max_size=3)},
        {"const": VALUES},
        {"uniqueItems": st.booleans(), "items": inner},
        {"prefixItems": several, "items": inner},
        {"contains": inner},
        {"pattern": PATTERNS},
        {"propertyNames": inner},
        {"properties": members, "unevaluatedProperties": st.booleans()},
        {"anyOf": several},
        {"oneOf": several},
        {"not": inner},
        {"if": inner, "then": inner, "else": inner},
        {"dependentSchemas": members},
        {"$ref": REFERENCES, "unevaluatedProperties": st.booleans()},
        {"$ref": REFERENCES, "unevaluatedItems": inner},
        {"$dynamicRef": REFERENCES, "properties": members},
        {
            "properties": members,
            "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
            "additionalProperties": inner,
        },
    ]
    return st.booleans() | st.one_of([st.fixed_dictionaries(kind) for kind in kinds])


SCHEMAS = st.recursive(st.fixed_dictionaries({"type": TYPES}), keywords, max_leaves=8)


@settings(max_examples=EXAMPLES, deadline=None)
@given(SCHEMAS, st.lists(VALUES, min_size=3, max_size=6))
def test_same_values_are_accepted_as_by_jsonschema(schema: Any, values: list[Any]) -> None:
    whole = {"type": "object", "properties": {"value": schema}, "$defs": DEFINITIONS}
    # The one pair of keywords that is refused.
    assume("patternProp" not in str(schema))
    check(whole, values)


@settings(max_examples=EXAMPLES, deadline=None)
@given(SCHEMAS, st.lists(VALUES, min_size=3, max_size=6))
def test_property_name_patterns_match_as_in_jsonschema(schema: Any, values: list[Any]) -> None:
    assume(not any(word in str(schema) for word in ("unevaluated", "$ref", "$dynamicRef")))
    check({"type": "object", "properties": {"value": schema}}, values)


def check(whole: dict[str, Any], values: list[Any]) -> None:
    validator, plain = SchemaValidator(whole, "input_schema"), Draft202012Validator(whole)
    for value in values:
        sent = {"value": value}
        assert plain.is_valid(sent) is (validator.errors(sent) == [])
