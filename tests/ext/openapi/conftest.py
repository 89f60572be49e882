"""A service at the other end, and the site that serves its operations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import route
from tests.ext.openapi.calling import (
    DOCUMENT,
    OPERATIONS,
    Offer,
)
from tests.support.services import Service, service


@pytest.fixture
def at_the_other_end() -> Iterator[Service]:
    with service() as running:
        yield running


@pytest.fixture
def offer(tmp_path: Path, settings: Any, at_the_other_end: Service) -> Offer:
    def make(content: Any = DOCUMENT, **options: Any) -> Service:
        file = tmp_path / "document.json"
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        given = {
            "document": file,
            "server": at_the_other_end.url,
            "operations": OPERATIONS,
            **({} if "headers" in options else {"anonymous": True}),
            **options,
        }
        options = {name: each for name, each in given.items() if each is not None}
        settings.MCP_BRIDGE = {
            "SOURCES": {
                "other": {
                    "BACKEND": "mcp_bridge.ext.openapi.OpenAPISource",
                    "OPTIONS": options,
                }
            }
        }
        route(settings)
        registry.reload()
        return at_the_other_end

    return make


@pytest.fixture
def caller(user: Any) -> MCPClient:
    return MCPClient(user=user)
