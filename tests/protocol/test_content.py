from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_bridge.protocol import LATEST, REVISIONS, CallToolResult, ContentBlock, TextContent
from mcp_bridge.protocol.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    OtherContent,
    PromptMessage,
    ResourceLink,
)
from mcp_bridge.protocol.revisions import LATEST_LEGACY

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


def test_members_of_another_server_are_sent() -> None:
    assert json.loads(TextContent("a", others={"more": [1]}).to_json()) == {
        "type": "text",
        "text": "a",
        "more": [1],
    }
    given = {"type": "odd", "a": {"b": 1}}
    block = OtherContent(given)
    assert (json.loads(block.to_json()), block.members(), block.type) == (given, given, "odd")
    result = CallToolResult(content=[TextContent("a")], others={"more": 1, "x": "y"})
    sent = json.loads(result.to_json(LATEST))
    assert (sent["more"], sent["x"]) == (1, "y")


def test_members_of_a_block_are_those_of_its_kind() -> None:
    block = TextContent("a", annotations={"a": 1}, meta={"b": 1}, others={"c": 1})
    assert block.members() == {"text": "a"}


@pytest.mark.parametrize("structured", [b"5", b"[1]", b"null"])
def test_foreign_structure_may_be_any_json_in_modern_revisions(structured: bytes) -> None:
    result = CallToolResult(structured=structured, is_foreign=True)
    sent = json.loads(result.to_json(LATEST))
    assert sent["structuredContent"] == json.loads(structured)
    assert "structuredContent" not in json.loads(result.to_json(LATEST_LEGACY))
    with pytest.raises(ValueError, match="must be a JSON object"):
        CallToolResult(structured=structured).to_json(LATEST)


def test_prompt_message_has_a_role_and_one_block() -> None:
    for block in ("Hi", TextContent("Hi")):
        message = PromptMessage(block, role="assistant")
        content = {"type": "text", "text": "Hi"}
        assert json.loads(message.to_json()) == {"role": "assistant", "content": content}
        assert message.type == "text"
    assert json.loads(PromptMessage("Hi").to_json())["role"] == "user"
    with pytest.raises(ValueError, match="not 'system'"):
        PromptMessage("Hi", role="system")


def test_prompt_message_keeps_its_role_at_every_revision() -> None:
    sound = PromptMessage(AudioContent(b"a", "audio/wav"), role="assistant")
    oldest = REVISIONS["2024-11-05"]
    (sent,) = json.loads(CallToolResult(content=[sound]).to_json(oldest))["content"]
    assert (sent["role"], sent["content"]["type"]) == ("assistant", "text")
