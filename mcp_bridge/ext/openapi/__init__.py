"""The source of another service's operations, by its OpenAPI document; imported on access."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "OpenAPISource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mcp_bridge.ext.openapi.source import OpenAPISource

    return OpenAPISource
