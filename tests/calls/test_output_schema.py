from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_bridge.protocol.content import CallToolResult, TextContent
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.contract.test_results import WITH_STRUCTURE, assert_fault
from tests.support.revisions import SPOKEN
from tests.support.serving import giving, messages, names

A_SCHEMA = {
    "type": "object",
    "properties": {"code": {"type": "string", "pattern": "^a"}},
    "required": ["code"],
}


@pytest.mark.requirement("tools.output-schema")
@pytest.mark.parametrize(("code", "kept"), [("a@b", True), ("b@a", False)])
def test_explicit_output_schema_is_enforced(code: str, kept: bool, client: CheckedClient) -> None:
    result = client.call_tool("by_hand", {"code": code})
    if kept:
        assert json.loads(text_of(result)) == {"code": code}
    else:
        assert_fault(result)


def test_explicit_output_schema_is_sent_verbatim(modern: CheckedClient) -> None:
    (tool,) = [each for each in modern.list_tools() if each["name"] == "by_hand"]
    assert tool["outputSchema"] == A_SCHEMA


@pytest.mark.requirement("tools.output-schema")
@pytest.mark.parametrize("value", [TextContent("words"), CallToolResult(), [], None, {"a": 1}])
def test_output_schema_requires_a_structured_result(
    value: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, giving(Any, value), output_schema=A_SCHEMA)
    assert_fault(modern.call_tool("give"))


def test_error_needs_no_structured_result(modern: CheckedClient, settings: Any) -> None:
    serve(settings, giving(Any, CallToolResult.error("refused")), output_schema=A_SCHEMA)
    assert text_of(modern.call_tool("give")) == "refused"


@pytest.mark.parametrize("schema", [{"type": "integer"}, {}, {"type": "objekt"}, {"type": "array"}])
def test_non_object_output_schema_is_refused(schema: Any, settings: Any) -> None:
    serve(settings, giving(int, 1), output_schema=schema)
    assert (names(), len(messages("mcp_bridge.E006"))) == ([], 1)


def test_output_schema_reaches_the_revisions_that_have_it(client: CheckedClient) -> None:
    (add,) = [each for each in client.list_tools() if each["name"] == "add"]
    assert ("outputSchema" in add) is (client.revision.version in WITH_STRUCTURE)
    assert set(SPOKEN) - WITH_STRUCTURE == {"2025-03-26"}
