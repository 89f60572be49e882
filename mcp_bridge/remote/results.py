"""Read the results of a remote server as what this site sends to its clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_bridge.protocol import CallToolResult, ContentBlock, JSONObject, TextContent
from mcp_bridge.protocol.content import OtherContent
from mcp_bridge.protocol.input_requests import (
    CreateMessageRequest,
    FormElicitRequest,
    InputRequest,
    ListRootsRequest,
    URLElicitRequest,
)
from mcp_bridge.protocol.requests import SERVER_INFO

# The members of a result that are not sent on as they came.
_READ: Final = frozenset({"content", "structuredContent", "isError", "_meta", "resultType"})

# The members of TextContent.
_OF_TEXT: Final = frozenset({"type", "text", "annotations", "_meta"})


def read_result(given: JSONObject) -> CallToolResult:
    """
    Return a CallToolResult (MCP schema) with all members of a server's.

    Raises ValueError if its members are not those of a result.
    """
    content, meta = given.get("content", []), given.get("_meta", {})
    if not isinstance(content, list) or not all(isinstance(each, dict) for each in content):
        raise ValueError("its content is not a list of objects")
    is_error = given.get("isError", False)
    if not isinstance(is_error, bool) or not isinstance(meta, dict):
        raise ValueError("isError or _meta has the wrong type")
    # Clients should see this site as the server, not the remote one.
    meta = {name: each for name, each in meta.items() if name != SERVER_INFO}
    return CallToolResult(
        content=[_block(each) for each in content],
        structured=given.get("structuredContent"),
        is_error=is_error,
        meta=meta,
        is_foreign=True,
        others={name: each for name, each in given.items() if name not in _READ},
    )


def _block(given: dict[str, Any]) -> ContentBlock:
    # Text blocks are what interceptors and records read.
    if given.get("type") == "text":
        if not isinstance(given.get("text"), str):
            raise ValueError("a text block lacks its text")
        others = {name: each for name, each in given.items() if name not in _OF_TEXT}
        parts = {"annotations": given.get("annotations"), "meta": given.get("_meta")}
        return TextContent(given["text"], **parts, others=others or None)
    if not isinstance(given.get("type"), str):
        raise ValueError("a content block lacks its type")
    return OtherContent(given)


def questions_in(given: JSONObject) -> dict[str, InputRequest]:
    """
    Return the requests to the client in a server's InputRequiredResult, by key.

    Raises ValueError for requests that are not part of MCP 2026-07-28.
    """
    requests = given.get("inputRequests", {})
    if not isinstance(requests, dict):
        raise ValueError("inputRequests is not an object")
    return {key: _question(key, each) for key, each in requests.items()}


def _question(key: str, request: object) -> InputRequest:
    method = request.get("method") if isinstance(request, dict) else None
    params = request.get("params", {}) if isinstance(request, dict) else None
    if not isinstance(params, Mapping):
        raise ValueError(f"inputRequests[{key!r}] lacks its params")
    message, schema = params.get("message"), params.get("requestedSchema")
    if method == FormElicitRequest.method and isinstance(message, str):
        if params.get("mode", "form") == "form" and isinstance(schema, dict):
            return FormElicitRequest(message, schema)
        if params.get("mode") == "url" and isinstance(params.get("url"), str):
            return URLElicitRequest(message, params["url"])
    messages, most = params.get("messages"), params.get("maxTokens")
    if method == CreateMessageRequest.method and isinstance(messages, list) and type(most) is int:
        read = ("messages", "maxTokens")
        options = {name: each for name, each in params.items() if name not in read}
        return CreateMessageRequest(messages, most, options)
    if method == ListRootsRequest.method:
        return ListRootsRequest()
    raise ValueError(f"inputRequests[{key!r}] has an unknown method, or lacks a required param")
