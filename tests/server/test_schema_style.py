"""Schemas for Google's clients: those sent, those enforced, and those approved."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from django.core import checks
from pydantic import Field
from rest_framework.test import APIClient

from mcp_bridge.protocol import LATEST
from mcp_bridge.registry.definitions import sent_definition
from mcp_bridge.registry.fingerprints import canonical_definition
from mcp_bridge.registry.linting import budget
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.calls.test_arguments import errors_of
from tests.schemas import examples as ex
from tests.support.serving import served
from tests.support.wire import somebody

GOOGLE = {"SCHEMA_STYLE": "google"}


def store(
    data: Annotated[bytes, Field(description="A picture.")],
    at: ex.Point | None = None,
    additionalProperties: bool = False,
    marks: dict[str, list[bytes]] = {"contentEncoding": []},  # noqa: B006
    **rest: Any,
) -> ex.Point:
    """Store a picture."""
    return ex.Point(len(data))


def add(number: int) -> dict[str, int]:
    """Add one."""
    return {"sum": number + 1}


HAND = {"type": "object", "properties": {"number": {}}, "additionalProperties": False}
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
}


@pytest.fixture
def google(settings: Any) -> None:
    settings.MCP_BRIDGE = GOOGLE


def sent(client: CheckedClient) -> Any:
    (tool,) = client.list_tools()
    return tool


def test_keywords_refused_by_googles_clients_are_not_sent(
    client: CheckedClient, google: None, settings: Any
) -> None:
    serve(settings, store)
    tool = sent(client)
    assert tool["inputSchema"] == {
        "type": "object",
        "properties": {
            "data": {"type": "string", "description": "A picture."},
            "at": {"anyOf": [POINT, {"type": "null"}], "default": None},
            "additionalProperties": {"type": "boolean", "default": False},
            "marks": {
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"type": "string"}},
                "default": {"contentEncoding": []},
            },
        },
        "required": ["data"],
    }
    assert tool.get("outputSchema", POINT) == POINT


def test_keywords_beside_branches_are_repeated_for_google(
    modern: CheckedClient, google: None, settings: Any
) -> None:
    def find(word: Annotated[str | None, "What to look for."] = "all") -> None: ...

    serve(settings, find)
    assert sent(modern)["inputSchema"]["properties"]["word"] == {
        "anyOf": [
            {"type": "string", "description": "What to look for.", "default": "all"},
            {"type": "null"},
        ],
        "description": "What to look for.",
        "default": "all",
    }


def test_renamed_keywords_of_googles_subset_are_sent(
    modern: CheckedClient, google: None, settings: Any
) -> None:
    def pay(how: ex.Payment, times: Literal[1] = 1) -> None: ...

    serve(settings, pay)
    members = sent(modern)["inputSchema"]["properties"]
    assert members["how"].keys() == {"anyOf"}
    methods = [branch["properties"]["method"] for branch in members["how"]["anyOf"]]
    assert [method["enum"] for method in methods] == [["card"], ["cash"]]
    assert members["times"]["const"] == 1


def test_handwritten_schema_is_reduced_for_google(
    modern: CheckedClient, google: None, settings: Any
) -> None:
    serve(settings, add, input_schema=HAND)
    assert sent(modern)["inputSchema"] == {"type": "object", "properties": {"number": {}}}
    assert HAND["additionalProperties"] is False


def test_style_does_not_change_enforcement(
    modern: CheckedClient, google: None, settings: Any
) -> None:
    serve(settings, add)
    assert errors_of(modern.call_tool("add", {"number": 1, "more": 1})) == [
        ("/more", "extra_forbidden")
    ]
    assert text_of(modern.call_tool("add", {"number": 1})) == '{"sum":2}'


def test_list_view_shows_the_style_of_clients(
    modern: CheckedClient, google: None, settings: Any
) -> None:
    serve(settings, store)
    http = APIClient()
    http.force_authenticate(somebody())
    assert http.get("/mcp/tools/list").json()["tools"] == modern.list_tools()


def test_approval_holds_in_either_style(modern: CheckedClient, settings: Any) -> None:
    serve(settings, store)
    full, before = sent(modern), canonical_definition(served("store"))
    size = budget(served("store"))
    settings.MCP_BRIDGE = GOOGLE
    assert sent(modern) != full
    canonical_definition.cache_clear()
    assert canonical_definition(served("store")) == before
    assert budget(served("store")) < size
    settings.MCP_BRIDGE = {}
    assert sent(modern) == full


def test_unknown_style_is_an_error(settings: Any) -> None:
    settings.MCP_BRIDGE = {"SCHEMA_STYLE": "openai"}
    (message,) = checks.run_checks(tags=["mcp_bridge"])
    assert message.id == "mcp_bridge.E002"
    assert "'full' or 'google'" in message.msg


def test_unreadable_schema_is_sent_unchanged(google: None, settings: Any) -> None:
    serve(settings, add)
    broken = replace(served("add"), input_schema={"properties": []})
    assert sent_definition(broken, LATEST)["inputSchema"] == {"properties": []}
