"""
The tools that the official conformance suite calls by name.

Names, texts and addresses are the suite's; each is described in its scenarios
(``conformance list --server``).
"""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

from modernrpc import RpcServer

from mcp_bridge import Context, ToolError, mcp_tool
from mcp_bridge.protocol.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    TextContent,
)
from mcp_bridge.schemas import McpHeader
from tests.conformance import media
from tests.conformance.others import others
from tests.conformance.questions import questions
from tests.conformance.tasks import tasks

server = RpcServer()
server.register_namespace(questions)
server.register_namespace(others)
server.register_namespace(tasks)

# Compared with the schema of tools/list, member for member (scenario json-schema-2020-12).
JSON_SCHEMA_2020_12: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def test_tool_with_progress(context: Context) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        context.progress(done, 100, f"Completed step {done} of 100")
        time.sleep(0.05)
    return "The tool has ended."


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def echo(text: str) -> str:
    """Return the text that was given."""
    return text


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def test_simple_text() -> TextContent:
    """Return one text block."""
    return TextContent("This is a simple text response for testing.")


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def test_image_content() -> ImageContent:
    """Return one image block."""
    return ImageContent(media.red_pixel(), "image/png")


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def test_audio_content() -> AudioContent:
    """Return one audio block."""
    return AudioContent(media.silence(), "audio/wav")


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def test_embedded_resource() -> EmbeddedResource:
    """Return one embedded resource."""
    return EmbeddedResource(
        "test://embedded-resource", "This is an embedded resource content.", "text/plain"
    )


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Return a text block, an image block and an embedded resource."""
    return [
        TextContent("Multiple content types test:"),
        ImageContent(media.red_pixel(), "image/png"),
        EmbeddedResource(
            "test://mixed-content-resource", '{"test":"data","value":123}', "application/json"
        ),
    ]


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def test_error_handling() -> str:
    """Fail, always."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.register_procedure
@mcp_tool(public=True, read_only=True, input_schema=JSON_SCHEMA_2020_12)
def json_schema_2020_12_tool(
    name: str = "",
    address: dict[str, str] | None = None,
    contactMethod: str = "email",
    phone: str = "",
    email: str = "",
) -> str:
    """
    Return how a person can be reached; its input schema has the additions of JSON Schema 2020-12.
    """
    return f"{name or 'Somebody'} can be reached by {contactMethod}."


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def test_missing_capability(context: Context) -> str:
    """Answer only clients that have declared the sampling capability."""
    context.require_capability("sampling")
    return "The client has declared the sampling capability."


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def test_streaming_elicitation() -> str:
    """Answer at once; the suite looks for requests from the server on the response."""
    return "Nothing was asked of the client."


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def test_x_mcp_header(region: Annotated[str, McpHeader("Region")]) -> str:
    """Return the region, which clients repeat in the header Mcp-Param-Region."""
    return region


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def test_logging_tool() -> str:
    """Answer at once; the suite looks for log messages that it did not ask for."""
    return "Nothing was logged to the client."


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def test_tool_with_logging(context: Context) -> str:
    """Log three messages to clients of a revision that still has them."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        if context.stream is not None and not context.revision.modern:
            params = {"level": "info", "data": text}
            context.stream.send({"method": "notifications/message", "params": params})
        time.sleep(0.05)
    return "The tool has ended."
