"""
Operations of another service, which an OpenAPI document describes, as tools.

The source is imported when it is first asked for, and not with the app.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "OpenAPISource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mcp_bridge.ext.openapi.source import OpenAPISource

    return OpenAPISource
