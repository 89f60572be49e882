from __future__ import annotations

from typing import Any

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
    ({**STRING, "minLength": 3, "maxLength": 9}, "string, minimum length 3, maximum length 9"),
    ({**STRING, "pattern": "^a"}, "string, pattern ^a"),
    ({**STRING, "format": "date"}, "string, format date"),
    ({**STRING, "contentEncoding": "base64"}, "string, encoding base64"),
    ({**INTEGER, "minimum": 1, "maximum": 100}, "integer, minimum 1, maximum 100"),
    ({**INTEGER, "exclusiveMinimum": 0}, "integer, more than 0"),
    ({"type": ["string", "null"]}, "string or null"),
    ({"anyOf": [{**INTEGER, "minimum": 1}, {"type": "null"}]}, "integer, minimum 1, or null"),
    ({"enum": ["draft", "review", None]}, "one of: draft, review, null"),
    ({"enum": ["a, b", "", "null", 1]}, 'one of: "a, b", "", "null", 1'),
    ({"enum": [*range(25)]}, f"one of: {', '.join(map(str, range(20)))}, …"),
    ({"const": "card"}, "one of: card"),
    ({"type": "array", "items": STRING, "maxItems": 5}, "list of string, most items 5"),
    ({"type": "array", "items": {"enum": [1, 2]}}, "list of (one of: 1, 2)"),
    ({"type": "array", "uniqueItems": True}, "list, all items different"),
    ({"anyOf": [{"type": "number"}, STRING, STRING]}, "number or string"),
    ({"allOf": [INTEGER, {"$ref": "#/$defs/N"}]}, "integer, and integer, minimum 1"),
    ({"properties": {}}, "object"),
    ({"$ref": "#"}, "#"),
    ({"$ref": "#/$defs/Gone"}, "Gone"),
    ({"$ref": "https://example.com/a"}, "a"),
    ({"$ref": "#/$defs/Self"}, "list of Self"),
    ({"$ref": "#/$defs/a~1b%20c"}, "string"),
    ({"$ref": "#anchored"}, "integer, minimum 1"),
    ({"$dynamicRef": "#anchored"}, "integer, minimum 1"),
    ({"$dynamicRef": "#gone"}, "#gone"),
]
DEFS = {
    "N": {"$anchor": "anchored", **INTEGER, "minimum": 1},
    "Self": {"type": "array", "items": {"$ref": "#/$defs/Self"}},
    "a/b c": STRING,
}


@pytest.mark.parametrize(("schema", "words"), WORDS, ids=label)
def test_type_is_described_in_words(schema: Any, words: str) -> None:
    assert describe_type(schema, SchemaDocument({"$defs": DEFS})) == words


def rows(schema: Any) -> list[tuple[int, str, str]]:
    return [(row.level, row.name, row.type) for row in parameters(schema)]


def test_nested_members_are_rows_below() -> None:
    tree = served("tree")
    node = [(1, "value", "integer"), (1, "children", "list of Node")]
    assert rows(tree.input_schema) == [(0, "root", "object"), *node]
    assert rows(tree.output_schema)[:3] == [
        (0, "value", "integer"),
        (0, "children", "list of object"),
        (1, "value", "integer"),
    ]
    assert rows(input_schema(taking(ex.Payment)))[:2] == [
        (0, "value", "object"),
        (1, "method", "one of: card"),
    ]
    assert rows(input_schema(taking(ex.Book | None))) == [
        (0, "value", "object or null"),
        (1, "title", "string, maximum length 5"),
        (1, "year", "integer or null"),
    ]
    assert rows(input_schema(taking(dict[str, ex.Point])))[1] == (1, "*", "object")
    assert rows({"properties": {"a.b": {}, "": {}}})[0][1] == '"a.b"'
    whole = {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}
    assert [name for _, name, _ in rows(whole)] == ["a", "b"]


def test_row_has_the_default_and_the_description() -> None:
    found = {row.name: row for row in parameters(served("shop_orders_find").input_schema)}
    assert found["limit"].default == "10"
    assert found["limit"].description == "How many at most."
    assert not found["limit"].required
    assert parameters(served("add").input_schema)[0].required


def test_table_is_bounded() -> None:
    defs = {
        f"D{level}": {"properties": {f"p{i}": {"$ref": f"#/$defs/D{level + 1}"} for i in range(40)}}
        for level in range(6)
    }
    found = parameters({"$ref": "#/$defs/D0", "$defs": defs})
    assert len(found) == MAX_ROWS + 1
    assert found[-1].type == "more than 200 rows; see the JSON for all"
    # It has not a single row, and only the bound ends it.
    each: dict[str, Any] = {
        f"A{i}": {"allOf": [{"$ref": f"#/$defs/A{i + 1}"}] * 9} for i in range(9)
    }
    assert parameters({"$ref": "#/$defs/A0", "$defs": each}) == []
    assert len(describe_type({"$ref": "#/$defs/A0"}, SchemaDocument({"$defs": each}))) <= 301


def test_table_is_escaped_and_empty_table_is_labelled() -> None:
    page = render("parameters", rows=[], caption="Takes")
    assert "Takes: none." in page.html
    text = {"<b>": {"description": "<b>", "default": "<b>", "enum": ["<b>"]}}
    page = render("parameters", rows=parameters({"properties": text}), caption="<b>", raw="<b>")
    assert not page.all("b")
