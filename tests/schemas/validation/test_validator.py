"""Explicit schemas: those that are refused on registration, and the texts of errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_bridge.schemas.validation import SchemaValidator
from mcp_bridge.testing.serving import serve
from tests.support import network
from tests.support.serving import messages, taking

unreachable = network.unreachable

INTEGER, NULL = {"type": "integer"}, {"type": "null"}

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def of(**value: Any) -> dict[str, Any]:
    """Return an input schema with one parameter, ``value``."""
    return {"type": "object", "properties": {"value": value}}


def nested(levels: int) -> Any:
    return json.loads('{"items":' * levels + "{}" + "}" * levels)


def sentences(schema: dict[str, Any], value: Any) -> list[str]:
    """Return the errors of the value of the one parameter."""
    found = SchemaValidator(of(**schema), "input_schema").errors({"value": value})
    assert all(each.path[:1] == ("value",) and len(each.message) <= 301 for each in found)
    return [each.message for each in found]


def accepts(schema: dict[str, Any], value: Any) -> bool:
    return not sentences(schema, value)


REFUSED = {
    "another dialect": (
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        "http://json-schema.org/draft-07/schema#",
    ),
    "a dialect below": (of(items={"$schema": "urn:x"}), "below its root"),
    "a dialect where only a reference leads": (
        of(**{"$ref": "#/own/a"}) | {"own": {"a": {"$schema": "urn:x"}}},
        "below its root",
    ),
    "a remote reference": (of(**{"$ref": "https://example.com/a"}), "https://example.com/a"),
    "a file": (of(**{"$ref": "file:///etc/passwd"}), "file:///etc/passwd"),
    "a missing definition": (
        of(**{"$ref": "#/$defs/gone"}),
        "refers to #/$defs/gone, which it does not contain",
    ),
    "a missing anchor": (of(**{"$ref": "#gone"}), "refers to #gone"),
    "a reference to no schema": (of(**{"$ref": "#/required"}) | {"required": ["a"]}, "#/required"),
    "a circle": ({"$ref": "#"}, "circular $ref"),
    "a circle of two": (
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#"}]}}},
        "circular $ref",
    ),
    "two targets of a $dynamicRef": (
        of(**{"$dynamicRef": "#a"})
        | {
            "$defs": {
                "a": {"$dynamicAnchor": "a"},
                "b": {"$id": "urn:b", "$dynamicAnchor": "a", "type": "string"},
            }
        },
        "$dynamicRef is ambiguous",
    ),
    "too large": ({"description": "ü" * 40_000}, "bytes"),
    "too deep": (of(**nested(40)), "levels deep"),
    "far too deep": (of(**nested(90)), "levels deep"),
    "too many": ({"allOf": [{"minProperties": 0}] * 1000}, "1001 subschemas"),
    "no schema": (of(type="strink"), "not valid at /properties/value/type"),
    "look-around": (of(pattern="(?=a)"), "look-around"),
    "a back-reference": (of(pattern=r"(a)\1"), "backreferences"),
    "no pattern": (of(pattern="("), "unclosed group"),
    "no pattern of names": ({"patternProperties": {"(?!a)": {}}}, "look-around"),
    "patterns with unevaluated": (
        {"patternProperties": {"a": {}}, "unevaluatedProperties": False},
        "additionalProperties",
    ),
    "no JSON": ({"default": {1, 2}}, "is not JSON"),
    "not a number": ({"default": float("nan")}, "is not JSON"),
}


@pytest.mark.requirement("schema.unresolved", "schema.bounds")
@pytest.mark.parametrize(("schema", "why"), REFUSED.values(), ids=REFUSED)
def test_schema_is_refused_with_the_reason(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match="^its input_schema ") as raised:
        SchemaValidator({"type": "object", **schema}, "input_schema")
    assert why in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.requirement("schema.dialect")
@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": DIALECT},
        {"$schema": f"{DIALECT}#"},
        of(**{"$ref": "#"}),
        of(**{"$ref": "#/definitions/old"}) | {"definitions": {"old": {"type": "integer"}}},
        of(**{"$ref": "urn:own"}) | {"$defs": {"x": {"$id": "urn:own", "type": "integer"}}},
        of(**{"$ref": "#here"}) | {"$defs": {"x": {"$anchor": "here"}}},
        {"properties": {"$schema": {"type": "string"}, "$ref": {"type": "string"}}},
        {"examples": [{"$ref": "https://example.com/x", "$schema": "urn:x"}]},
        of(**nested(25)),
    ],
)
def test_schema_within_the_bounds_is_accepted(schema: dict[str, Any]) -> None:
    assert SchemaValidator({"type": "object", **schema}, "input_schema").errors({}) == []


@pytest.mark.requirement("schema.other-dialect")
def test_refused_dialect_is_named_by_a_check(settings: Any) -> None:
    draft = "http://json-schema.org/draft-04/schema#"
    serve(settings, taking(int), output_schema={"type": "object", "$schema": draft})
    (message,) = messages("mcp_bridge.E006")
    assert f"its output_schema is of the dialect {draft}" in message


@pytest.mark.requirement("schema.no-fetching")
@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (of(**{"$ref": "https://example.com/a"}), "example.com/a, which is not fetched"),
        (of(**{"$ref": "//example.com/a"}), "example.com/a, which is not fetched"),
        (of(**{"$ref": "file:///etc/hostname"}), "etc/hostname, which is not fetched"),
        (of(**{"$dynamicRef": "https://example.com/a#b"}), "a#b, which is not fetched"),
        ({"$schema": "https://example.com/dialect"}, "dialect https://example.com/dialect, not"),
        (
            {"$id": "https://example.com/schemas/", **of(**{"$ref": "other"})},
            "refers to other, which is not fetched",
        ),
        (
            of(**{"$id": "https://example.com/b", "$ref": "other#/$defs/c"}),
            "refers to other#/$defs/c, which is not fetched",
        ),
    ],
    ids=["https", "of any scheme", "file", "dynamic", "dialect", "relative", "relative below"],
)
def test_nothing_is_ever_fetched(schema: dict[str, Any], why: str, unreachable: None) -> None:
    with pytest.raises(ValueError, match="^its input_schema ") as raised:
        SchemaValidator({"type": "object", **schema}, "input_schema")
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, 1.0], False),
        ([1, True], True),
        ([0, False, None, "", [], {}], True),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([[1, 2], [2, 1]], True),
        (["1", 1], True),
        ([0.1, 0.1], False),
        ([10**17, 1e17], False),
    ],
)
def test_unique_items_are_compared_as_in_json_schema(items: Any, unique: bool) -> None:
    assert accepts({"uniqueItems": True}, items) is unique


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", "2026-02-28", "2026-02-30"),
        ("date-time", "2026-02-28T10:00:00Z", "2026-02-28 10:00"),
        ("date-time", "2016-12-31t23:59:60.5+00:00", "2026-02-30T10:00:00Z"),
        ("time", "10:00:00+02:00", "10:00:00"),
        ("time", "10:00:00z", "25:00:00Z"),
        ("email", "a@example.com", "a.example.com"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("ipv6", "::1", ":::1"),
        ("uuid", "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2eb8aa08"),
        ("uri", "https://example.com/a?b", "example com"),
        ("regex", "a+", "("),
    ],
)
def test_format_is_asserted(name: str, good: str, bad: str) -> None:
    assert accepts({"format": name}, good)
    assert accepts({"format": name}, 5)
    assert sentences({"format": name}, bad) == [f'must be of the format "{name}"']
    assert not accepts({"format": name}, good + "x" * 5000)


@pytest.mark.parametrize(
    ("value", "is_base64"),
    [("", True), ("YQ==", True), ("iVBORw0KGgo=", True), (5, True)]
    + [(text, False) for text in ("!!", "YQ", "YQ=", "Y Q==", "YQ==\n", "_w==", "data:,a", "ü")],
)
def test_base64_is_asserted(value: Any, is_base64: bool) -> None:
    found = sentences({"contentEncoding": "base64"}, value)
    assert found == [] if is_base64 else ["must be base64" in each for each in found] == [True]
    assert accepts({"contentEncoding": "quoted-printable"}, value)


def test_generated_schemas_are_not_validated_at_startup() -> None:
    odd = of(type="integer", **{"$comment": 5})
    with pytest.raises(ValueError, match="is not valid at /properties/value/\\$comment"):
        SchemaValidator(odd, "input_schema")
    generated = SchemaValidator(odd, "input_schema", is_generated=True)
    assert [each.message for each in generated.errors({"value": "x"})] == ["must be an integer"]
    with pytest.raises(ValueError, match="levels deep"):
        SchemaValidator(of(**nested(40)), "input_schema", is_generated=True)


def test_unknown_format_is_ignored() -> None:
    assert accepts({"format": "colour"}, "x")


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "integer"}, "x" * 889_000, "must be an integer"),
        ({"type": ["string", "null"]}, [1] * 9000, "must be a string or null"),
        ({"anyOf": [{"type": "string"}, NULL]}, [1] * 9000, "must be a string or null"),
        ({"anyOf": [NULL, {"enum": ["a", 1]}]}, "b" * 500, 'must be one of "a", 1 or null'),
        ({"anyOf": [{"const": 1}, NULL]}, "b", "must be 1 or null"),
        ({"anyOf": [{"maxLength": 3}, NULL]}, "x" * 889_000, "must have at most 3 characters"),
        ({"anyOf": [{"type": "string"}, INTEGER, NULL]}, [], "matches none of the"),
        ({"enum": ["a", 1, None]}, "b" * 500, 'must be one of "a", 1, null'),
        ({"enum": [[1], {"a": 2}]}, [2], 'must be one of [1], {"a": 2}'),
        ({"const": {"a": 1}}, {"a": 2}, 'must be {"a": 1}'),
        ({"minimum": 5}, 4, "must be at least 5"),
        ({"exclusiveMaximum": 5}, 5, "must be less than 5"),
        ({"multipleOf": 5}, 7, "must be a multiple of 5"),
        ({"maxLength": 3}, "x" * 889_000, "must have at most 3 characters"),
        ({"minItems": 3}, [], "must have at least 3 items"),
        ({"uniqueItems": True}, ["x" * 5000] * 2, "must not contain the same item twice"),
        ({"pattern": "^a"}, "b" * 889_000, 'must match the pattern "^a"'),
        ({"required": ["a"]}, {}, "is required and was not given"),
        ({"additionalProperties": False}, {"b" * 9000: 1}, "not a known member"),
        ({"propertyNames": {"maxLength": 1}}, {"bb": 1}, "a name that is not allowed: 'bb'"),
        ({"anyOf": [{"type": "null"}]}, ["x"] * 9000, "matches none of the"),
        ({"oneOf": [{"type": "null"}]}, "x" * 9000, "matches none of the"),
        ({"oneOf": [{}, {}]}, "x" * 9000, "matches more than one schema"),
        ({"not": {}}, "x" * 9000, "must not match"),
        ({"contains": {"const": 1}}, ["x" * 9000], "'contains'"),
        ({"items": False}, ["x" * 9000], "more items than allowed"),
        ({"unevaluatedProperties": False}, {"a": "x" * 9000}, "members that are not allowed"),
    ],
)
def test_error_is_a_short_sentence(schema: Any, value: Any, message: str) -> None:
    (line,) = sentences(schema, value)
    assert message in line


def test_nullable_value_has_the_errors_of_its_schema() -> None:
    inner = {"properties": {"a": {"anyOf": [INTEGER, NULL]}}, "additionalProperties": False}
    schema = {"items": {"anyOf": [{"type": "object", **inner}, NULL]}}
    found = SchemaValidator(schema, "schema").errors([None, {"a": "x", "b": 1}, 5])
    assert [(each.path, each.keyword) for each in found] == [
        ((1, "a"), "type"),
        ((1, "b"), "additionalProperties"),
        ((2,), "type"),
    ]
    assert [each.message for each in found][::2] == [
        "must be an integer or null",
        "must be an object or null",
    ]


@pytest.mark.requirement("schema.dialect")
@pytest.mark.parametrize(
    ("schema", "value", "accepted"),
    [
        ({"const": {"a": [1.0]}}, {"a": [1]}, True),
        ({"const": True}, 1, False),
        ({"enum": [[True]]}, [1], False),
        ({"enum": [1]}, 1.0, True),
        ({"patternProperties": {"^n_": {"type": "integer"}}}, {"n_a": 1, "other": "x"}, True),
        ({"patternProperties": {"^n_": {"type": "integer"}}}, {"n_a": "x"}, False),
        (
            {"patternProperties": {"^n_": {}}, "additionalProperties": {"type": "null"}},
            {"n_": 1, "other": None},
            True,
        ),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "null"}}, {"b": 1}, False),
        ({"pattern": r"^\p{L}+$"}, "Öl", True),
        ({"pattern": "^a$"}, "a\n", False),
        ({"anyOf": [NULL, NULL]}, 1, False),
        ({"anyOf": [NULL, {"type": "null", "title": "none"}]}, 1, False),
        ({"anyOf": [NULL, {"allOf": [NULL]}]}, 1, False),
        ({"anyOf": [NULL, {"const": "null"}]}, 1, False),
    ],
)
def test_replaced_keywords_behave_as_in_json_schema(
    schema: Any, value: Any, accepted: bool
) -> None:
    assert accepts(schema, value) is accepted
