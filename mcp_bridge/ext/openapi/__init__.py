"""
Operations of another service, which an OpenAPI document describes, as tools.

    source   which operations are tools, and what is wrong with the document
    client   a call: the request, under the rules of calls.outbound, and its answer
    pinned   a document cut to its chosen operations, as manage.py mcp_openapi writes it

The source is imported when it is first asked for, and not with the app.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "OpenAPISource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mcp_bridge.ext.openapi.source import OpenAPISource

    return OpenAPISource
