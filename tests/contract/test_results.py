from __future__ import annotations

import base64
import json
import logging
from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from django.utils.safestring import mark_safe
from jsonschema import Draft202012Validator
from pydantic import Field

from mcp_bridge.protocol import REVISIONS
from mcp_bridge.protocol.content import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    TextContent,
)
from mcp_bridge.protocol.requests import SERVER_INFO
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.schemas import examples as ex
from tests.support.serving import giving, served
from tests.support.values import label

WITH_STRUCTURE = {"2026-07-28", "2025-11-25", "2025-06-18"}
LINK = {"uri": "https://example.com/a", "name": "a", "title": "A", "size": 3}
PNG = {"data": base64.b64encode(b"\x89PNG").decode(), "mimeType": "image/png"}
BLOCKS: dict[str, list[dict[str, Any]]] = {
    "text": [{"type": "text", "text": "words", "annotations": {"priority": 1}}],
    "image": [{"type": "image", **PNG}],
    "audio": [
        {"type": "audio", "data": base64.b64encode(b"RIFF").decode(), "mimeType": "audio/wav"}
    ],
    "link": [{"type": "resource_link", **LINK}],
    "embedded": [
        {
            "type": "resource",
            "resource": {"uri": "test://a", "text": "text", "mimeType": "text/plain"},
        }
    ],
    "blob": [{"type": "resource", "resource": {"uri": "test://b", "blob": "AAE="}}],
    "mixed": [{"type": "text", "text": "words"}, {"type": "image", **PNG}],
    "result": [{"type": "text", "text": "whole"}],
}
# Replacements of blocks that a revision does not support.
INSTEAD = {("link", "2025-03-26"): [{"type": "text", "text": "A: https://example.com/a"}]}


def test_content_blocks_are_sent_unchanged(client: CheckedClient) -> None:
    version = client.revision.version
    for kind, blocks in BLOCKS.items():
        result = client.call_tool("blocks", {"kind": kind})
        assert result["content"] == INSTEAD.get((kind, version), blocks)
        assert (result["isError"], "structuredContent" in result) == (False, False)


def test_audio_is_text_in_revisions_without_it() -> None:
    result = CallToolResult(content=[AudioContent(b"RIFF", "audio/wav")])
    (block,) = json.loads(result.to_json(REVISIONS["2024-11-05"]))["content"]
    assert block["type"] == "text"
    assert "audio" in block["text"]


def test_meta_of_a_whole_result_is_kept(client: CheckedClient) -> None:
    assert client.call_tool("blocks", {"kind": "result"})["_meta"]["example.com/a"] == 1


def test_explicit_error_result_is_an_error(client: CheckedClient) -> None:
    result = client.call_tool("blocks", {"kind": "error"})
    assert (result["isError"], text_of(result)) == (True, "refused by hand")


def test_explicit_error_result_ignores_the_hint(modern: CheckedClient, settings: Any) -> None:
    serve(settings, giving(dict[str, int], CallToolResult.error("refused by hand")))
    assert text_of(modern.call_tool("give")) == "refused by hand"


def test_empty_block_list_has_no_content(modern: CheckedClient, settings: Any) -> None:
    serve(settings, giving(list[TextContent], []))
    result = modern.call_tool("give")
    assert result["content"] == []
    assert "structuredContent" not in result


SENT: list[Any] = [
    (ex.Point, ex.Point(1, 2), '{"x":1,"y":2}', {"x": 1, "y": 2}),
    (ex.Options, {"a": 1}, '{"a":1}', {"a": 1}),
    (ex.Card, ex.Card(method="card", amount=1), None, {"method": "card", "amount": 1}),
    (dict[str, int], {"a": 1}, '{"a":1}', {"a": 1}),
    (
        ex.Node,
        ex.Node(1, [ex.Node(2, [])]),
        None,
        {"value": 1, "children": [{"value": 2, "children": []}]},
    ),
    (int, 3, "3", {"result": 3}),
    (str, "words", "words", {"result": "words"}),
    (str, "", "", {"result": ""}),
    (bool, True, "true", {"result": True}),
    (float, 1.5, "1.5", {"result": 1.5}),
    (list[int], [1, 2], "[1,2]", {"result": [1, 2]}),
    (list[ex.Point], [ex.Point(1)], '[{"x":1,"y":0}]', {"result": [{"x": 1, "y": 0}]}),
    (tuple[int, str], (1, "a"), '[1,"a"]', {"result": [1, "a"]}),
    (int | None, None, "null", {"result": None}),
    (ex.Point | None, ex.Point(1), '{"x":1,"y":0}', {"result": {"x": 1, "y": 0}}),
    (None, None, "null", {"result": None}),
    (ex.Colour, ex.Colour.RED, None, {"result": "red"}),
    (Any, {"a": 1}, '{"a":1}', {"a": 1}),
    (Any, [1], "[1]", {"result": [1]}),
    (Any, ex.Point(1), '{"x":1,"y":0}', {"x": 1, "y": 0}),
    (str, "ünï文\u2028\x00", "ünï文\u2028\x00", {"result": "ünï文\u2028\x00"}),
    (str, "NaN Infinity " + "9" * 400, None, {"result": "NaN Infinity " + "9" * 400}),
    (dict[str, int | str], {"a": "NaN", "b": 5}, '{"a":"NaN","b":5}', {"a": "NaN", "b": 5}),
    (int, 10**305, str(10**305), {"result": 10**305}),
    (int, 2**70, str(2**70), {"result": 2**70}),
    (str, mark_safe("<b>"), "<b>", {"result": "<b>"}),
]


@pytest.mark.parametrize(
    ("hint", "value", "text", "structured"),
    SENT,
    ids=label,
)
def test_result_is_text_and_structured_content(
    hint: Any, value: Any, text: str | None, structured: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, giving(hint, value))
    result = modern.call_tool("give")
    assert result["isError"] is False
    assert result["structuredContent"] == structured
    if text is not None:
        assert text_of(result) == text
    schema = served("give").output_schema
    assert schema is None or Draft202012Validator(schema).is_valid(structured)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_functions_of_both_kinds_work_under_both_views(
    asynchronous: bool, modern: CheckedClient, settings: Any
) -> None:
    async def later(text: str) -> str:
        return text

    serve(settings, later, giving(int, 1), asynchronous=asynchronous)
    assert modern.call_tool("later", {"text": "x"})["structuredContent"] == {"result": "x"}
    assert modern.call_tool("give")["structuredContent"] == {"result": 1}


@pytest.mark.requirement("tools.text-too", "initialize.version-kept")
def test_structured_content_is_sent_if_the_revision_supports_it(client: CheckedClient) -> None:
    result = client.call_tool("add", {"a": 1})
    assert text_of(result) == "2"
    if client.revision.version in WITH_STRUCTURE:
        assert result["structuredContent"] == {"result": 2}
    else:
        assert "structuredContent" not in result


@pytest.mark.requirement("result.type", "initialize.version-kept", "cache.nowhere-else")
def test_modern_members_never_reach_a_legacy_client(client: CheckedClient) -> None:
    result = client.call_tool("add", {"a": 1})
    allowed = {"content", "structuredContent", "isError"}
    if client.revision.modern:
        allowed |= {"resultType", "_meta"}
    assert set(result) <= allowed


RUBBISH = [
    (Any, float("nan")),
    (Any, {"x": [float("inf")]}),
    (float, float("-inf")),
    (dict[str, float], {"a": float("nan")}),
    (str, "\ud800"),
    (Any, {"\ud800": 1}),
    (TextContent, TextContent("\ud800")),
    (TextContent, TextContent(5)),  # type: ignore[arg-type]
    (int, 10**5000),
    (Any, [10**400]),
    (Any, object()),
    (Any, lambda: None),
    (Any, ContentBlock()),
    (dict[str, int], TextContent("words")),
    (CallToolResult, CallToolResult(structured=b"no json")),
    (CallToolResult, CallToolResult(structured=b"5")),
    (CallToolResult, CallToolResult(structured=b'{"a":NaN}')),
]


@pytest.mark.requirement("legacy.structured")
@pytest.mark.parametrize(("hint", "value"), RUBBISH, ids=[str(n) for n in range(len(RUBBISH))])
@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_unserialisable_result_is_a_tool_failure(
    hint: Any, value: Any, client: CheckedClient, settings: Any
) -> None:
    serve(settings, giving(hint, value))
    assert_fault(client.call_tool("give"))


def test_circular_result_is_a_tool_failure(modern: CheckedClient, settings: Any) -> None:
    endless: list[Any] = []
    endless.append(endless)
    serve(settings, giving(Any, endless))
    assert_fault(modern.call_tool("give"))


def assert_fault(result: dict[str, Any]) -> None:
    """Assert that the result says that the tool is broken, and nothing else."""
    assert result["isError"] is True
    assert "structuredContent" not in result
    assert "reference" in text_of(result)


WRONG = [
    (int, "3"),
    (int, None),
    (int, 3.5),
    (str, 3),
    (str, None),
    (bool, 1),
    (list[int], ["1"]),
    (list[int], None),
    (dict[str, int], {"a": "1"}),
    (dict[str, int], None),
    (tuple[int, str], (1,)),
    (int | str, 1.5),
    (ex.Point, ex.Point("1")),  # type: ignore[arg-type]
    (ex.Point, None),
    (ex.Point | None, 5),
    (ex.Options, {}),
    (ex.Options, {"a": "1"}),
    (ex.Book, ex.Book.model_construct(title="too long")),
    (ex.Book, ex.Book.model_construct(title=5)),
    (Literal["a"], "b"),
    (Annotated[int, Field(le=5)], 9),
    (Annotated[str, Field(max_length=2)], "long"),
]


@pytest.mark.parametrize(("hint", "value"), WRONG, ids=lambda each: repr(each)[:40])
def test_result_violating_its_schema_is_a_tool_failure(
    hint: Any, value: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, giving(hint, value))
    assert_fault(modern.call_tool("give"))


def test_subclass_result_is_limited_to_the_hint(modern: CheckedClient, settings: Any) -> None:
    class Secret(ex.Book):
        password: str = "SECRET-MARKER"

    serve(settings, giving(ex.Book, Secret(title="t")))
    assert modern.call_tool("give")["structuredContent"] == {"title": "t", "year": None}
    assert b"SECRET-MARKER" not in modern.response.content


@pytest.mark.off_rest
def test_details_of_an_invalid_result_are_only_logged(
    modern: CheckedClient, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    serve(settings, giving(int, "SECRET-MARKER"))
    result = modern.call_tool("give")
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert text_of(result).split("reference ")[1].split(",")[0] in record.getMessage()
    assert b"SECRET-MARKER" not in modern.response.content


@pytest.mark.parametrize(("size", "sent"), [(1000, True), (5000, False)])
def test_oversized_result_is_an_error_naming_the_limit(
    size: int, sent: bool, client: CheckedClient, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"MAX_RESULT_BYTES": 4000}
    serve(settings, giving(Any, "x" * size))
    result = client.call_tool("give")
    assert result["isError"] is not sent
    assert sent or "4000" in text_of(result)
    assert len(client.response.content) < 4200


@pytest.mark.off_rest
def test_structured_content_can_be_a_value(client: CheckedClient, settings: Any) -> None:
    def give() -> CallToolResult:
        """Give a value."""
        return CallToolResult(structured={"a": [1, None]})

    def describe() -> CallToolResult:
        """Give a value and a text."""
        return CallToolResult(content=[TextContent("one")], structured={"a": 1})

    serve(settings, give, describe)
    result, described = client.call_tool("give"), client.call_tool("describe")
    assert result["content"] == [{"type": "text", "text": '{"a":[1,null]}'}]
    assert described["content"] == [{"type": "text", "text": "one"}]
    if client.revision.structured_content:
        assert result["structuredContent"] == {"a": [1, None]}
        assert described["structuredContent"] == {"a": 1}


def test_structured_content_is_always_readable_as_a_value() -> None:
    for given in ({"a": 1}, b'{"a":1}'):
        assert CallToolResult(structured=given).structured_content == {"a": 1}
    assert CallToolResult().structured_content is None


@pytest.mark.off_tasks
@pytest.mark.off_rest
def test_tools_own_server_info_is_sent_once(modern: CheckedClient, settings: Any) -> None:
    def pose() -> CallToolResult:
        """Say to be another server."""
        own = {SERVER_INFO: {"name": "another", "version": "1"}, "example/own": 1}
        return CallToolResult(content=[TextContent("x")], meta=own)

    serve(settings, pose)
    meta = modern.call_tool("pose")["_meta"]
    assert (meta["example/own"], meta[SERVER_INFO]["name"]) == (1, "newsroom")
    assert modern.response.content.count(SERVER_INFO.encode()) == 1


def test_result_is_encoded_once(modern: CheckedClient, settings: Any) -> None:
    encoded: list[str] = []

    class Counted(TextContent):
        def to_json(self) -> bytes:
            encoded.append(self.text)
            return TextContent.to_json(self)

    def tell(error: bool) -> CallToolResult:
        """Return a text, as a result or as an error."""
        return CallToolResult(content=[Counted("once")], is_error=error)

    serve(settings, tell)
    for error in (False, True):
        encoded.clear()
        assert modern.call_tool("tell", {"error": error})["isError"] is error
        assert encoded == ["once"]


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
@pytest.mark.parametrize(
    "value",
    ["", "a", 'say "a\\b"', "".join(map(chr, range(0x30))), "\x7f\u2028é\U0001f600", "{}", "[1]"]
    + [0, -1, 2**63 - 1, -(2**63), 2**64, 10**300, True, False, None, 1.5, 1e300, [], ["a"], {}]
    + [{"a": ['"', "\\", "\n", "\x1f", "\x7f"]}],
    ids=repr,
)
def test_result_is_serialised_like_its_members(
    value: Any, revision: Any, settings: Any, user: Any
) -> None:
    """Whether it is written whole or member by member, with a hint or without one."""
    for hint in (type(value) if value is not None else None, Any):
        serve(settings, giving(hint, value))
        result = served("give").encode(value)
        (block,) = result.content
        by_members = replace(result, content=[TextContent(block.text)])
        assert result == by_members
        assert result.to_json(revision) == by_members.to_json(revision)
        wrapped = value if isinstance(value, dict) else {"result": value}
        assert result.structured_content == wrapped
        assert (block.text if isinstance(value, str) else json.loads(block.text)) == value


@pytest.mark.parametrize(
    ("hint", "value"),
    [(int, "1"), (int, 1.5), (str, 1), (str, ["a"]), (bool, 1), (int, 10**309), (str, None)]
    + [(str, "\ud800"), (bool, "true"), (int, None)],
)
def test_result_of_another_type_is_a_failure(hint: Any, value: Any, settings: Any) -> None:
    serve(settings, giving(hint, value))
    with pytest.raises((ValueError, TypeError)):
        served("give").encode(value)
