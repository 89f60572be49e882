"""A document of another service, and calls of its operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp_bridge import ToolError
from mcp_bridge.features import ToolCall
from mcp_bridge.testing import MCPClient, text_of
from tests.sources.operations.documents import STRING, of_object, parameter
from tests.support.services import Service

FILE = {"type": "string", "format": "binary"}
MULTIPART = "multipart/form-data"
FORM = "application/x-www-form-urlencoded"


def body(schema: Any, media: str = "application/json") -> dict[str, Any]:
    return {"required": True, "content": {media: {"schema": schema}}}


PATHS: dict[str, Any] = {
    "/articles/{slug}": {
        "put": {
            "operationId": "articles/put",
            "tags": ["articles"],
            "parameters": [parameter("slug", "path", required=True), parameter("dryRun")],
            "requestBody": body(of_object("slug", slug=STRING, dryRun={"type": "boolean"})),
        },
        "get": {
            "operationId": "articles/get",
            "tags": ["articles"],
            "parameters": [
                parameter("slug", "path", required=True),
                parameter("filter", style="deepObject", schema={"type": "object"}),
                parameter("X-User", "header"),
            ],
        },
    },
    "/numbers": {
        "post": {
            "operationId": "numbers",
            "requestBody": body({"type": "array", "items": {"type": "integer"}}),
        }
    },
    "/forms": {
        "post": {
            "operationId": "forms",
            "requestBody": body(of_object(title=STRING, meta={"type": "object"}), FORM),
        }
    },
    "/files": {
        "post": {
            "operationId": "files",
            "requestBody": body(
                of_object("photo", photo=FILE, title=STRING), "multipart/form-data"
            ),
        }
    },
    "/read": {"get": {"operationId": "read"}},
    "/write": {"post": {"operationId": "write"}},
    "/old": {"get": {"operationId": "old", "deprecated": True}},
    "/xml": {"post": {"operationId": "xml", "requestBody": body({}, "application/xml")}},
}
DOCUMENT = {"openapi": "3.0.3", "info": {"title": "x", "version": "1"}, "paths": PATHS}
OPERATIONS = ["tag:articles", "numbers", "forms", "files", "GET /read", "write"]

# Offers the document, with additional options of the source.
Offer = Callable[..., Service]


def called(caller: MCPClient, tool: str, **arguments: Any) -> Any:
    """Return what the service says that it has received."""
    result = caller.call_tool(tool, arguments)
    assert not result.get("isError"), text_of(result)
    return result["structuredContent"]


def failed(caller: MCPClient, tool: str, **arguments: Any) -> str:
    result = caller.call_tool(tool, arguments)
    assert result["isError"]
    return text_of(result)


# Names the user of the call, and a secret of the site.
def headers(call: ToolCall) -> dict[str, str]:
    return {"Authorization": "Bearer of-the-site", "x-user": call.context.user.get_username()}


def refusing_headers(call: ToolCall) -> dict[str, str]:
    raise ToolError("Link your account at /account first.")


def broken_headers(call: ToolCall) -> dict[str, str]:
    return {"Authorization": "Bearer secret\r\nX-Other: 1"}


def passing_headers(call: ToolCall) -> dict[str, str]:
    """Pass on a credential that is meant for this site only."""
    request = call.context.request
    assert request is not None
    return {"X-Token": f"is {request.META['HTTP_AUTHORIZATION']}"}


HOOK = f"{__name__}.headers"
