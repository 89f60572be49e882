"""Null for an optional parameter counts as omitted if its schema does not allow null."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from django.urls import path
from ninja import NinjaAPI
from pydantic import Field

from mcp_bridge import mcp_tool
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route, serve
from tests.calls.test_arguments import errors_of
from tests.support.values import label

received: list[dict[str, Any]] = []


@pytest.fixture(autouse=True)
def emptied() -> None:
    received.clear()


@dataclass
class Point:
    x: int = 0
    y: int | None = 1


@pytest.mark.parametrize(
    ("hint", "default"),
    [
        (int, 5),
        (str, "a"),
        (list[int], []),
        (Point, Point(1)),
        (Literal["a", "b"], "a"),
        (int | str, 1),
        (Annotated[int, Field(ge=1)], 1),
        (int, None),
    ],
    ids=label,
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_null_for_an_optional_parameter_is_dropped(
    hint: Any, default: Any, asynchronous: bool, modern: CheckedClient, settings: Any
) -> None:
    def take(value=default, other: int = 0):  # type: ignore[no-untyped-def]
        """Take a value."""
        received.append({"value": value, "other": other})

    take.__annotations__["value"] = hint
    serve(settings, take, asynchronous=asynchronous)
    before = modern.list_tools()
    answer = modern.call_tool("take", {"value": None, "other": 3})
    assert answer["isError"] is False, answer
    assert received == [{"value": default, "other": 3}]
    assert modern.list_tools() == before


def test_null_allowed_by_the_schema_is_kept(modern: CheckedClient, settings: Any) -> None:
    def take(value: int | None = 5, anything: Any = 5, nothing: None = None) -> None:
        """Take values."""
        received.append({"value": value, "anything": anything})

    serve(settings, take)
    modern.call_tool("take", {"value": None, "anything": None, "nothing": None})
    assert received == [{"value": None, "anything": None}]


@pytest.mark.parametrize(
    ("arguments", "errors"),
    [
        ({"needed": None}, [("/needed", "int_type")]),
        ({"needed": 1, "unknown": None}, [("/unknown", "unexpected_keyword_argument")]),
        ({"needed": 1, "point": {"x": None}}, [("/point/x", "int_type")]),
        ({"needed": 1, "items": [None]}, [("/items/0", "int_type")]),
    ],
)
def test_other_nulls_are_argument_errors(
    arguments: Any, errors: Any, modern: CheckedClient, settings: Any
) -> None:
    def take(needed: int, point: Point = Point(), items: list[int] = []) -> None:  # noqa: B006, B008
        """Take values."""

    serve(settings, take)
    found = errors_of(modern.call_tool("take", arguments))
    assert [path for path, _ in found] == [path for path, _ in errors]


SCHEMA = {
    "type": "object",
    "properties": {
        "needed": {"type": "string"},
        "code": {"$ref": "#/$defs/code"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["needed"],
    "$defs": {"code": {"type": "integer"}},
}


def test_nulls_are_dropped_with_an_explicit_schema(modern: CheckedClient, settings: Any) -> None:
    def take(needed: str, **others: Any) -> None:
        """Take values."""
        received.append({"needed": needed, **others})

    serve(settings, take, input_schema=SCHEMA)
    sent = {"needed": "a", "code": None, "note": None, "more": None}
    assert modern.call_tool("take", sent)["isError"] is False
    assert received == [{"needed": "a", "note": None, "more": None}]
    assert errors_of(modern.call_tool("take", {"needed": None})) == [("/needed", "type")]


def test_nulls_are_dropped_from_operations(modern: CheckedClient, settings: Any) -> None:
    api = NinjaAPI(urls_namespace="nulls")

    @mcp_tool
    @api.get("/find", operation_id="find", response=list[str])
    def find(request: Any, text: str, limit: int = 5, note: str | None = "a") -> Any:
        """Find articles."""
        return [text, str(limit), str(note)]

    options = {"auth": "mcp_bridge.sources.ninja.caller"}
    source = {"BACKEND": "mcp_bridge.sources.ninja.NinjaSource", "OPTIONS": options}
    settings.MCP_BRIDGE = {"SOURCES": {"ninja": source}}
    route(settings, path("api/", api.urls))
    answer = modern.call_tool("find", {"text": "b", "limit": None})
    assert answer["structuredContent"] == {"result": ["b", "5", "a"]}
    assert errors_of(modern.call_tool("find", {"text": None})) == [("/text", "type")]
