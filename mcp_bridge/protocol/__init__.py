"""MCP as data, using only the standard library: bytes and headers in, a reply out (``answer``)."""

from __future__ import annotations

from mcp_bridge.protocol.content import (
    ERRORS_KEY,
    PENDING_KEY,
    RETRY_KEY,
    CallToolResult,
    ContentBlock,
    TextContent,
)
from mcp_bridge.protocol.errors import InvalidParamsError, ProtocolError, UnknownToolError
from mcp_bridge.protocol.exchange import Reply, Result, answer, internal_error, refuse
from mcp_bridge.protocol.headers import Headers, decoded_header
from mcp_bridge.protocol.input_requests import Answers, InputRequiredResult, read_answers
from mcp_bridge.protocol.jsonrpc import JSONObject, JSONSchema
from mcp_bridge.protocol.requests import Request
from mcp_bridge.protocol.revisions import LATEST, REVISIONS, SUPPORTED_VERSIONS, Revision, negotiate
from mcp_bridge.protocol.tasks import TASKS, CreateTaskResult
from mcp_bridge.protocol.text import without_unprintable

__all__ = ["ERRORS_KEY", "LATEST", "PENDING_KEY", "RETRY_KEY", "REVISIONS", "SUPPORTED_VERSIONS"]
__all__ += ["Answers", "CallToolResult", "ContentBlock"]
__all__ += ["Headers", "InputRequiredResult", "InvalidParamsError", "JSONObject", "JSONSchema"]
__all__ += ["ProtocolError", "Reply", "Request", "Result", "Revision", "TextContent", "answer"]
__all__ += ["UnknownToolError", "decoded_header", "internal_error", "read_answers", "refuse"]
__all__ += ["TASKS", "CreateTaskResult", "negotiate", "without_unprintable"]
