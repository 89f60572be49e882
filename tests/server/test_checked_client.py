"""The client with checked answers finds content that the official models do not allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from mcp_bridge.protocol.content import EmbeddedResource, TextContent
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve


def priority() -> TextContent:
    return TextContent("a", annotations={"priority": "high"})


def audience() -> list[TextContent]:
    return [TextContent("a"), TextContent("b", annotations={"audience": ["nobody"]})]


def resource() -> EmbeddedResource:
    return EmbeddedResource("https://example.com/", "a", mime_type=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("function", [priority, audience, resource])
def test_invalid_content_is_found_in_every_revision(
    function: Callable[[], Any], client: CheckedClient, settings: Any
) -> None:
    serve(settings, function)
    with pytest.raises(ValidationError):
        client.call_tool(function.__name__)
