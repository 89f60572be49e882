from __future__ import annotations

from typing import Any, Literal

import pytest

from mcp_bridge.admin.schema_tables import MAX_ROWS, describe_type, parameters
from mcp_bridge.schemas.walk import SchemaDocument
from tests.schemas import examples as ex
from tests.support.page import render
from tests.support.schemas import input_schema
from tests.support.serving import served, taking
from tests.support.values import label

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
WORDS: list[tuple[Any, str]] = [
    ({}, "anything"),
    (True, "anything"),
    (False, "nothing"),
    (STRING, "string"),
    ({**STRING, "minLength": 1}, "string, at least 1 character"),
    ({**STRING, "minLength": 3, "maxLength": 3}, "string, exactly 3 characters"),
    ({**STRING, "pattern": "^a"}, "string, matching ^a"),
    ({**STRING, "format": "date"}, "date such as 2026-01-31"),
    ({**STRING, "format": "ipv4"}, "string, ipv4"),
    ({**STRING, "contentEncoding": "base64"}, "string, in base64"),
    ({**INTEGER, "minimum": 1, "maximum": 100}, "integer, 1 to 100"),
    ({**INTEGER, "exclusiveMinimum": 0}, "integer, more than 0"),
    ({**INTEGER, "maximum": 9, "multipleOf": 3}, "integer, at most 9, a multiple of 3"),
    ({"type": "number", "exclusiveMaximum": 1}, "number, less than 1"),
    ({"type": ["string", "null"]}, "string or null"),
    ({"type": ["integer", "null"], "minimum": 1}, "integer, at least 1, or null"),
    ({"enum": ["draft", "review", None]}, "one of: draft, review, null"),
    ({"enum": ["a, b", "", "null", 1]}, 'one of: "a, b", "", "null", 1'),
    ({"enum": [*range(25)]}, f"one of: {', '.join(map(str, range(20)))} and 5 more"),
    ({"const": "card"}, "always card"),
    ({"type": "array", "items": STRING, "maxItems": 5}, "list of string, at most 5"),
    ({"type": "array", "items": {"enum": [1, 2]}}, "list of (one of: 1, 2)"),
    ({"type": "array", "uniqueItems": True}, "list of anything, all different"),
    (
        {"type": "array", "prefixItems": [INTEGER, STRING]},
        "list of, in this order: integer; string",
    ),
    ({"anyOf": [{"type": "number"}, STRING, STRING]}, "number or string"),
    ({"allOf": [INTEGER, {"$ref": "#/$defs/N"}]}, "integer, and integer, at least 1"),
    ({"properties": {}}, "object"),
    ({"$ref": "#"}, "the same as the whole again"),
    ({"$ref": "#/$defs/Gone"}, "as #/$defs/Gone says"),
    ({"$ref": "https://example.com/a"}, "as https://example.com/a says"),
    ({"$ref": "#/$defs/Self"}, "list of (Self again, which may hold itself)"),
    ({"$ref": "#/$defs/a~1b%20c"}, "string"),
    ({"$ref": "#anchored"}, "integer, at least 1"),
    ({"$dynamicRef": "#anchored"}, "integer, at least 1"),
    ({"$dynamicRef": "#gone"}, "as #gone says"),
]
DEFS = {
    "N": {"$anchor": "anchored", **INTEGER, "minimum": 1},
    "Self": {"type": "array", "items": {"$ref": "#/$defs/Self"}},
    "a/b c": STRING,
}


@pytest.mark.parametrize(("schema", "words"), WORDS, ids=label)
def test_a_schema_is_said_in_words(schema: Any, words: str) -> None:
    assert describe_type(schema, SchemaDocument({"$defs": DEFS})) == words


def rows(schema: Any) -> list[tuple[int, str, str]]:
    return [(row.level, row.name, row.type) for row in parameters(schema)]


def test_what_a_schema_holds_has_rows_of_its_own() -> None:
    tree = served("tree")
    node = [
        (1, "root.value", "integer"),
        (1, "root.children", "list of (Node again, which may hold itself)"),
    ]
    assert rows(tree.input_schema) == [(0, "root", "object"), *node]
    assert rows(tree.output_schema)[:3] == [
        (0, "value", "integer"),
        (0, "children", "list of object"),
        (1, "children[].value", "integer"),
    ]
    assert rows(input_schema(taking(ex.Payment)))[:3] == [
        (0, "value", "object"),
        (1, "value", "kind 1 of 2: object"),
        (2, "value.method", "always card"),
    ]
    assert rows(input_schema(taking(ex.Book | None)))[1:] == [
        (1, "value.title", "string, at most 5 characters"),
        (1, "value.year", "integer or null"),
    ]
    choices = rows(input_schema(taking(list[Literal["a", "b"] | None])))
    assert choices == [(0, "value", "list of (one of: a, b, null)")]
    mixed = rows(input_schema(taking(Literal[1, "a", None])))
    assert mixed == [(0, "value", "one of: 1, a, null")]
    assert rows(input_schema(taking(dict[str, ex.Point])))[1] == (1, "value.*", "object")
    assert rows({"properties": {"a.b": {}, "": {}}})[0][1] == '"a.b"'
    whole = {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}
    assert [name for _, name, _ in rows(whole)] == ["a", "b"]
    branches = {"anyOf": whole["allOf"]}
    assert [name for _, name, _ in rows(branches)] == ["kind 1 of 2", "kind 1 of 2.a"] + [
        "kind 2 of 2",
        "kind 2 of 2.b",
    ]


def test_a_row_says_what_is_required_and_what_is_the_default() -> None:
    found = {row.name: row for row in parameters(served("shop_orders_find").input_schema)}
    assert found["limit"].default == "10"
    assert found["limit"].description == "How many at most."
    assert not found["limit"].required
    assert parameters(served("add").input_schema)[0].required


def test_a_table_is_bounded() -> None:
    defs = {
        f"D{level}": {"properties": {f"p{i}": {"$ref": f"#/$defs/D{level + 1}"} for i in range(40)}}
        for level in range(6)
    }
    found = parameters({"$ref": "#/$defs/D0", "$defs": defs})
    assert len(found) == MAX_ROWS + 1
    assert found[-1].type == "more than 200 rows: the JSON has all of them"
    # Without a single row, and without an end but for the bound.
    each: dict[str, Any] = {
        f"A{i}": {"allOf": [{"$ref": f"#/$defs/A{i + 1}"}] * 9} for i in range(9)
    }
    assert parameters({"$ref": "#/$defs/A0", "$defs": each}) == []
    assert len(describe_type({"$ref": "#/$defs/A0"}, SchemaDocument({"$defs": each}))) <= 301


def test_a_table_without_rows_says_so_and_nothing_in_it_is_html() -> None:
    page = render("parameters", rows=[], caption="Takes")
    assert "Takes: nothing." in page.html
    text = {"<b>": {"description": "<b>", "default": "<b>", "enum": ["<b>"]}}
    page = render("parameters", rows=parameters({"properties": text}), caption="<b>", raw="<b>")
    assert not page.all("b")
