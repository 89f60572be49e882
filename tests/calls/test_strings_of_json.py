"""Objects and arrays sent as JSON strings are refused with advice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import Field
from typing_extensions import TypedDict

from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.schemas import examples as ex
from tests.support.serving import taking
from tests.support.values import label

ERRORS = "mcp-bridge/errors"
ADVICE = "; send the {} itself, not a string of JSON"


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


def called(client: CheckedClient, settings: Any, hint: Any, value: Any, **mark: Any) -> Any:
    """Return the result of a tool that takes one value of that hint."""
    serve(settings, taking(hint), **mark)
    return client.call_tool("take", {"value": value})


ADVISED: list[Any] = [
    (dict[str, int], '{"a": 1}', "/value", "object"),
    (list[int], "[1, 2]", "/value", "array"),
    (list[int], "\n [1]\t", "/value", "array"),
    (list[int], "[1", "/value", "array"),
    (set[int], "[1]", "/value", "array"),
    (tuple[int, str], '[1, "a"]', "/value", "array"),
    (list[int] | None, "[]", "/value", "array"),
    (list[int] | int, "[1]", "/value", "array"),
    (Annotated[list[int], Field(max_length=2)], "[1, 2]", "/value", "array"),
    (Filter, '{"words": ["a"]}', "/value", "object"),
    (Filter | None, '{"words": ["a"]}', "/value", "object"),
    (Filter, {"words": '["a"]'}, "/value/words", "array"),
    (list[Filter], ['{"words": []}', {"words": []}], "/value/0", "object"),
    (dict[str, list[int]], {"a/b~": "[1]"}, "/value/a~1b~0", "array"),
    (tuple[int, list[int]], [1, "[2]"], "/value/1", "array"),
    (Cat | Dog, '{"name": "x", "walks": {}}', "/value", "object"),
    (
        ex.Node,
        {"value": 1, "children": [{"value": 2, "children": "[]"}]},
        "/value/children/0/children",
        "array",
    ),
]


@pytest.mark.parametrize(("hint", "sent", "path", "kind"), ADVISED, ids=label)
def test_string_of_json_is_an_error_with_advice(
    hint: Any, sent: Any, path: str, kind: str, modern: CheckedClient, settings: Any
) -> None:
    result = called(modern, settings, hint, sent)
    assert result["isError"]
    messages = {error["path"]: error["message"] for error in result["_meta"][ERRORS]}
    assert ADVICE.format(kind) in messages[path]


PLAIN: list[Any] = [
    (dict[str, int], "[1]"),
    (list[int], '{"a": 1}'),
    (list[int] | None, "null"),
    (list[int], "1"),
    (int, "[1]"),
    (Annotated[str, Field(max_length=2)], "[1, 2]"),
]


@pytest.mark.parametrize(("hint", "sent"), PLAIN, ids=label)
def test_any_other_string_is_an_error_without_advice(
    hint: Any, sent: str, modern: CheckedClient, settings: Any
) -> None:
    result = called(modern, settings, hint, sent)
    assert result["isError"]
    assert "string of JSON" not in text_of(result)


@pytest.mark.parametrize("hint", [str, Any, str | list[int], list[str] | str], ids=label)
def test_string_valid_as_a_string_is_accepted(
    hint: Any, modern: CheckedClient, settings: Any
) -> None:
    assert text_of(called(modern, settings, hint, "[1]")) == "'[1]'"


@pytest.mark.parametrize(
    ("schema", "sent", "kind"),
    [
        ({"type": "array"}, "[1]", "array"),
        ({"type": ["null", "object"]}, '{"a": 1}', "object"),
        ({"anyOf": [{"type": "array"}, {"type": "null"}]}, "[]", "array"),
        ({"type": "object"}, "[1]", ""),
        ({"type": "string", "maxLength": 1}, "[1]", ""),
    ],
)
def test_explicit_schema_gets_the_same_advice(
    schema: Any, sent: str, kind: str, modern: CheckedClient, settings: Any
) -> None:
    by_hand = {"type": "object", "properties": {"value": schema}}
    text = text_of(called(modern, settings, Any, sent, input_schema=by_hand))
    assert text.endswith(ADVICE.format(kind) if kind else text)
    assert ("string of JSON" in text) == bool(kind)
