from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_bridge.protocol import REVISIONS, CallToolResult, ContentBlock, TextContent
from mcp_bridge.protocol.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink

MORE: Any = {"annotations": {"audience": ["user"]}, "meta": {"example.com/a": 1}}
SENT = {"annotations": {"audience": ["user"]}, "_meta": {"example.com/a": 1}}
BLOCKS: list[tuple[ContentBlock, dict[str, Any]]] = [
    (TextContent("é"), {"type": "text", "text": "é"}),
    (TextContent("", **MORE), {"type": "text", "text": "", **SENT}),
    (TextContent("", meta={}), {"type": "text", "text": "", "_meta": {}}),
    (TextContent("", annotations={}), {"type": "text", "text": "", "annotations": {}}),
    (
        ImageContent(b"\xff\xfe", "image/png"),
        {"type": "image", "data": "//4=", "mimeType": "image/png"},
    ),
    (
        AudioContent(b"", "audio/wav", **MORE),
        {"type": "audio", "data": "", "mimeType": "audio/wav", **SENT},
    ),
    (ResourceLink("a:b", "b"), {"type": "resource_link", "uri": "a:b", "name": "b"}),
    (
        ResourceLink("a:b", "b", "t", "d", "text/plain", 0, **MORE),
        {
            **{"type": "resource_link", "uri": "a:b", "name": "b", "title": "t"},
            **{"description": "d", "mimeType": "text/plain", "size": 0, **SENT},
        },
    ),
    (
        EmbeddedResource("a:b", "x"),
        {"type": "resource", "resource": {"uri": "a:b", "text": "x"}},
    ),
    (
        EmbeddedResource("a:b", b"x", "text/plain", **MORE),
        {
            "type": "resource",
            "resource": {"uri": "a:b", "mimeType": "text/plain", "blob": "eA=="},
            **SENT,
        },
    ),
]


@pytest.mark.parametrize(("block", "sent"), BLOCKS, ids=range(len(BLOCKS)))
def test_block_is_sent_with_its_own_members(block: ContentBlock, sent: dict[str, Any]) -> None:
    assert json.loads(block.to_json()) == sent


def test_text_block_refuses_bytes() -> None:
    text: Any = b"x"
    with pytest.raises(TypeError, match="^TextContent holds a str, not a bytes$"):
        TextContent(text).to_json()


LINK = ResourceLink("a:b", "b")
INSTEAD: list[tuple[str, ContentBlock, str]] = [
    ("2025-03-26", LINK, "b: a:b"),
    ("2025-03-26", ResourceLink("a:b", "b", "Title"), "Title: a:b"),
    (
        "2024-11-05",
        AudioContent(b"", "audio/wav"),
        '{"type": "audio", "note": "not part of MCP 2024-11-05"}',
    ),
]


@pytest.mark.parametrize(("version", "block", "text"), INSTEAD)
def test_block_unknown_to_a_revision_is_sent_as_text(
    version: str, block: ContentBlock, text: str
) -> None:
    result = json.loads(CallToolResult(content=[block]).to_json(REVISIONS[version]))
    assert result["content"] == [{"type": "text", "text": text}]
    newest = json.loads(CallToolResult(content=[block]).to_json(REVISIONS["2025-06-18"]))
    assert newest["content"][0]["type"] == block.type


OLD, LEGACY, MODERN = (REVISIONS[each] for each in ("2025-03-26", "2025-06-18", "2026-07-28"))
SERVER = b'{"server":1}'


def test_result_has_the_members_of_its_revision() -> None:
    result = CallToolResult(content=[TextContent("x")], structured={"a": 1}, meta={"b": 2})
    assert result.structured_content == {"a": 1}
    shared = '{"content":[{"type":"text","text":"x"}],'
    assert result.to_json(OLD).decode() == f'{shared}"isError":false,"_meta":{{"b":2}}}}'
    assert result.to_json(LEGACY).decode() == (
        f'{shared}"structuredContent":{{"a":1}},"isError":false,"_meta":{{"b":2}}}}'
    )
    assert result.to_json(MODERN, SERVER).decode() == (
        f'{shared}"structuredContent":{{"a":1}},"isError":false,"resultType":"complete",'
        '"_meta":{"b":2,"server":1}}'
    )
    # Text written for one revision is not sent in another.
    assert result.to_json(OLD).decode() == f'{shared}"isError":false,"_meta":{{"b":2}}}}'


def test_empty_result_has_only_the_required_members() -> None:
    assert CallToolResult().to_json(OLD) == b'{"content":[],"isError":false}'
    assert CallToolResult(structured={"a": 1}, is_error=True).to_json(LEGACY) == (
        b'{"content":[],"isError":true}'
    )
    assert CallToolResult().to_json(MODERN, SERVER) == (
        b'{"content":[],"isError":false,"resultType":"complete","_meta":{"server":1}}'
    )


@pytest.mark.parametrize("structured", [b"[1]", b"1", b""])
def test_structured_content_is_an_object(structured: bytes) -> None:
    with pytest.raises(ValueError, match="^structured content must be a JSON object$"):
        CallToolResult(structured=structured).to_json(LEGACY)


@pytest.mark.parametrize(("text", "plain"), [('{"a":"\\\\"}', b'{"a":"\\\\"}'), ("x", b'"x"')])
def test_result_of_json_is_text_and_structure(text: str, plain: bytes) -> None:
    result = CallToolResult.of_json(text, plain, b'{"result":1}')
    written = json.loads(result.to_json(LEGACY))
    assert written["content"] == [{"type": "text", "text": text}]
    assert (written["structuredContent"], written["isError"]) == ({"result": 1}, False)
    assert result.structured_content == {"result": 1}
    assert (result.content, result.meta) == ([TextContent(text)], {})


def test_error_has_its_text_and_its_meta() -> None:
    error = CallToolResult.error("Retry.", {"a": 1})
    assert (list(error.content), error.is_error, error.meta) == (
        [TextContent("Retry.")],
        True,
        {"a": 1},
    )
    assert CallToolResult.error("x").meta == {}
