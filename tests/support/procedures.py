"""Procedures that return content, that fail, and that return unsendable values."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.http import Http404
from modernrpc import RpcNamespace
from modernrpc.exceptions import RPCException
from rest_framework.exceptions import NotFound

from mcp_bridge import ToolError, mcp_tool
from mcp_bridge.protocol.content import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

outcomes = RpcNamespace()


@outcomes.register_procedure
@mcp_tool
def blocks(kind: str) -> list[TextContent | ImageContent] | CallToolResult:
    """Return content blocks."""
    found: dict[str, Any] = {
        "text": TextContent("words", annotations={"priority": 1}),
        "image": ImageContent(b"\x89PNG", "image/png"),
        "audio": AudioContent(b"RIFF", "audio/wav"),
        "link": ResourceLink("https://example.com/a", "a", title="A", size=3),
        "embedded": EmbeddedResource("test://a", "text", "text/plain"),
        "blob": EmbeddedResource("test://b", b"\x00\x01"),
        "mixed": [TextContent("words"), ImageContent(b"\x89PNG", "image/png")],
        "result": CallToolResult(content=[TextContent("whole")], meta={"example.com/a": 1}),
        "error": CallToolResult.error("refused by hand"),
    }
    return found[kind]


@outcomes.register_procedure
@mcp_tool
def fail(how: str) -> Any:
    """Fail in one of many ways."""
    raised: dict[str, BaseException] = {
        "tool": ToolError("Say please."),
        "rpc": RPCException(-32050, "The ledger is closed."),
        "validation": ValidationError({"name": ["Too long.", "Too dull."]}),
        "denied": PermissionDenied("Not today."),
        "404": Http404("No such page."),
        "missing": ObjectDoesNotExist("Book matching query does not exist."),
        "api": NotFound("No such row."),
        "todo": NotImplementedError(),
        "bug": RuntimeError("SECRET-MARKER"),
        "exit": SystemExit(3),
    }
    raise raised[how]


@outcomes.register_procedure
@mcp_tool
def type_error() -> int:
    """Raise a TypeError in the body."""
    return len(3)  # type: ignore[arg-type]


@outcomes.register_procedure
@mcp_tool
def returns(what: str) -> Any:
    """Return an object that JSON cannot hold."""
    return {
        "nan": {"x": float("nan")},
        "infinity": [float("inf")],
        "surrogate": "\ud800",
        "object": object(),
        "huge": 10**5000,
        "big": "x" * 100_000,
        "none": None,
    }[what]


@outcomes.register_procedure
@mcp_tool
def wrong_result() -> int:
    """Return something else than the hint says."""
    return "three"  # type: ignore[return-value]
