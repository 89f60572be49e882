"""Objects and arrays that clients send as strings of JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import Field
from typing_extensions import TypedDict

from mcp_bridge import ToolError
from mcp_bridge.calls.coercion import Decoding
from mcp_bridge.checks.settings import check_settings
from mcp_bridge.schemas.walk import SchemaDocument
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.schemas import examples as ex
from tests.support.profiling import calls
from tests.support.serving import taking
from tests.support.values import label

REPAIRED = "mcp-bridge/repaired"
ERRORS = "mcp-bridge/errors"


@dataclass
class Filter:
    words: list[str]
    author: dict[str, int] = field(default_factory=dict)


class Cat(TypedDict):
    name: str
    toys: list[str]


class Dog(TypedDict):
    name: str
    walks: dict[str, int]


@pytest.fixture
def on(settings: Any) -> None:
    settings.MCP_BRIDGE = {"COERCE_STRINGIFIED": True}


def called(client: CheckedClient, settings: Any, hint: Any, value: Any, **mark: Any) -> Any:
    """The result of a tool that takes one value of that hint."""
    serve(settings, taking(hint), **mark)
    return client.call_tool("take", {"value": value})


TAKEN: list[Any] = [
    (dict[str, int], '{"a": 1}', {"a": 1}, ["/value"]),
    (list[int], "[1, 2]", [1, 2], ["/value"]),
    (list[int], "\n [1]\t", [1], ["/value"]),
    (set[int], "[1]", {1}, ["/value"]),
    (tuple[int, str], '[1, "a"]', (1, "a"), ["/value"]),
    (list[int] | None, "[]", [], ["/value"]),
    (list[int] | int, "[1]", [1], ["/value"]),
    (Annotated[list[int], Field(max_length=2)], "[1, 2]", [1, 2], ["/value"]),
    (Filter, '{"words": ["a"]}', Filter(["a"]), ["/value"]),
    (Filter, {"words": '["a"]'}, Filter(["a"]), ["/value/words"]),
    (
        Filter,
        {"words": '["a"]', "author": '{"b": 1}'},
        Filter(["a"], {"b": 1}),
        ["/value/author", "/value/words"],
    ),
    (Filter, '{"words": "[\\"a\\"]"}', Filter(["a"]), ["/value", "/value/words"]),
    (Filter | None, '{"words": ["[1]"]}', Filter(["[1]"]), ["/value"]),
    (list[Filter], ['{"words": []}', {"words": []}], [Filter([]), Filter([])], ["/value/0"]),
    (dict[str, list[int]], {"a/b~": "[1]"}, {"a/b~": [1]}, ["/value/a~1b~0"]),
    (tuple[int, list[int]], [1, "[2]"], (1, [2]), ["/value/1"]),
    (Cat | Dog, {"name": "x", "toys": "[]"}, {"name": "x", "toys": []}, ["/value/toys"]),
    (Cat | Dog, '{"name": "x", "walks": {}}', {"name": "x", "walks": {}}, ["/value"]),
    (
        ex.Node,
        {"value": 1, "children": [{"value": 2, "children": "[]"}]},
        ex.Node(1, [ex.Node(2, [])]),
        ["/value/children/0/children"],
    ),
]


@pytest.mark.parametrize(("hint", "sent", "value", "repaired"), TAKEN, ids=label)
def test_string_of_json_is_taken_where_the_site_says_so(
    hint: Any, sent: Any, value: Any, repaired: Any, on: None, client: CheckedClient, settings: Any
) -> None:
    result = called(client, settings, hint, sent)
    assert text_of(result) == repr(value)
    assert sorted(result["_meta"][REPAIRED]) == repaired


REFUSED: list[Any] = [
    (dict[str, int], "[1]"),
    (list[int], '{"a": 1}'),
    (list[int] | None, "null"),
    (list[int], "1"),
    (list[int], "[1"),
    (list[int], "[1] [2]"),
    (list[int], "[NaN]"),
    (list[int], "[" * 100 + "]" * 100),
    (dict[str, int], '{"a": 1, "a": 2}'),
    (int, "[1]"),
    (Annotated[str, Field(max_length=2)], "[1, 2]"),
    (Annotated[str, Field(max_length=2)] | list[int], "[1, 2]"),
]


@pytest.mark.parametrize(("hint", "sent"), REFUSED, ids=label)
def test_string_that_holds_anything_else_stays_an_error(
    hint: Any, sent: str, on: None, modern: CheckedClient, settings: Any
) -> None:
    result = called(modern, settings, hint, sent)
    assert result["isError"]
    assert REPAIRED not in result["_meta"]
    assert "string of JSON" not in text_of(result)


@pytest.mark.parametrize("hint", [str, Any, str | list[int], list[str] | str], ids=label)
def test_string_that_may_be_one_is_never_decoded(
    hint: Any, on: None, modern: CheckedClient, settings: Any
) -> None:
    result = called(modern, settings, hint, "[1]")
    assert text_of(result) == "'[1]'"
    assert REPAIRED not in result["_meta"]


def test_call_that_needs_no_repair_says_nothing_of_it(
    on: None, modern: CheckedClient, settings: Any
) -> None:
    assert REPAIRED not in called(modern, settings, list[int], [1])["_meta"]


def test_what_is_wrong_inside_is_told_with_what_was_repaired(
    on: None, client: CheckedClient, settings: Any
) -> None:
    result = called(client, settings, Filter, '{"words": [1], "more": 2}')
    assert [error["path"] for error in result["_meta"][ERRORS]] == ["/value/more", "/value/words/0"]
    assert result["_meta"][REPAIRED] == ["/value"]


def test_error_of_the_tool_says_what_was_repaired(
    on: None, client: CheckedClient, settings: Any
) -> None:
    def fail(value: list[int]) -> None:
        """Fail."""
        raise ToolError("No.")

    serve(settings, fail)
    result = client.call_tool("fail", {"value": "[1]"})
    assert (text_of(result), result["_meta"][REPAIRED]) == ("No.", ["/value"])


# Without the setting


@pytest.mark.parametrize(("hint", "sent", "value", "repaired"), TAKEN, ids=label)
def test_string_of_json_is_an_error_that_says_what_to_send(
    hint: Any, sent: Any, value: Any, repaired: Any, modern: CheckedClient, settings: Any
) -> None:
    result = called(modern, settings, hint, sent)
    assert result["isError"]
    assert REPAIRED not in result["_meta"]
    first = {error["path"]: error["message"] for error in result["_meta"][ERRORS]}[repaired[0]]
    assert first.endswith(" itself, not a string of JSON")


def test_error_names_the_kind_that_is_wanted(modern: CheckedClient, settings: Any) -> None:
    text = text_of(called(modern, settings, list[int] | None, "[1]"))
    assert text.endswith("; send the array itself, not a string of JSON")
    text = text_of(called(modern, settings, Filter, '{"words": []}'))
    assert text.endswith("; send the object itself, not a string of JSON")


# Schemas by hand

BY_HAND: dict[str, Any] = {
    "type": "object",
    "$defs": {
        "list": {"type": "array", "items": {"type": "integer"}},
        "loop": {"$ref": "#/$defs/loop"},
        "a list": {"$anchor": "anchored", "$ref": "#/$defs/list"},
        "named": {"$id": "urn:named", "$ref": "#/$defs/own", "$defs": {"own": {"type": "object"}}},
    },
    "properties": {
        "list": {"$ref": "#/$defs/list"},
        "many": {"allOf": [{"$ref": "#/$defs/list"}, {"maxItems": 3}]},
        "one": {"oneOf": [{"type": "array"}, {"type": "object", "required": ["a"]}]},
        "fixed": {"enum": [[1], [2]]},
        "exact": {"const": {"a": 1}},
        "loop": {"$ref": "#/$defs/loop"},
        "outside": {"$ref": "https://example.com/schema"},
        "missing": {"$ref": "#/$defs/list/items/of/nothing"},
        "self": {"$ref": "#"},
        "encoded": {"$ref": "#/$defs/a%20list"},
        "anchored": {"$ref": "#anchored"},
        "named": {"$ref": "urn:named"},
        "never": False,
        "text": {"type": ["array", "string"], "maxLength": 1},
    },
    "anyOf": [{"required": ["list"]}, {"minProperties": 1}],
}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"list": "[1]"}, {"/list": "array"}),
        ({"list": ["[1]"]}, {}),
        ({"many": "[1]"}, {"/many": "array"}),
        ({"one": '{"a": "[1]"}'}, {"/one": "object"}),
        ({"fixed": "[1]"}, {"/fixed": "array"}),
        ({"exact": '{"a": 1}'}, {"/exact": "object"}),
        (
            {"self": {"self": '{"list": "[1]"}'}},
            {"/self/self": "object", "/self/self/list": "array"},
        ),
        ({"encoded": "[1]", "anchored": "[1]"}, dict.fromkeys(["/encoded", "/anchored"], "array")),
        ({"named": '{"a": 1}'}, {"/named": "object"}),
        (dict.fromkeys(("loop", "outside", "missing", "never", "text", "else"), "[1]"), {}),
    ],
    ids=label,
)
def test_schema_by_hand_is_read_in_all_its_forms(arguments: Any, found: Any) -> None:
    decoding = Decoding(SchemaDocument(BY_HAND))
    decoding.decode(arguments)
    assert decoding.found == found


def test_argument_of_a_schema_by_hand_is_repaired(
    on: None, client: CheckedClient, settings: Any
) -> None:
    schema = {
        "type": "object",
        "properties": {"value": {"type": "array", "items": {"type": "object"}}},
    }
    result = called(client, settings, list[dict[str, int]], '[{"a": 1}]', input_schema=schema)
    assert (text_of(result), result["_meta"][REPAIRED]) == ("[{'a': 1}]", ["/value"])


def test_argument_of_a_schema_by_hand_is_advised(modern: CheckedClient, settings: Any) -> None:
    schema = {"type": "object", "properties": {"value": {"type": "array"}}}
    result = called(modern, settings, list[int], "[1]", input_schema=schema)
    assert text_of(result).endswith("; send the array itself, not a string of JSON")


# What it costs


def test_deep_and_wide_arguments_are_refused_by_little_work(
    on: None, modern: CheckedClient, settings: Any
) -> None:
    text = "[]"
    for _ in range(12):
        text = json.dumps([text])
    sent = [text] + ["[[]]"] * 10_000
    work, result = calls(lambda: called(modern, settings, list[list[int]], sent))
    assert result["isError"]
    assert work < 100 * len(sent)


def test_schema_with_many_ways_to_itself_is_read_once() -> None:
    tree: dict[str, Any] = {
        "anyOf": [{"properties": {"a": {"$ref": "#"}}}] * 3 + [{"type": "array"}]
    }
    value: Any = "[1]"
    for _ in range(60):
        value = {"a": value}
    work, _ = calls(lambda: Decoding(SchemaDocument(tree)).decode(value))
    assert work < 20_000


@pytest.mark.parametrize("value", [1, "yes", None])
def test_setting_is_true_or_false(value: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"COERCE_STRINGIFIED": value}
    assert [message.id for message in check_settings()] == ["mcp_bridge.E002"]
