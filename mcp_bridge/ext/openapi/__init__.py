"""
Operations of another service, which an OpenAPI document describes, as tools.

    source   which operations are tools, and what is wrong with the document
    client   a call: the request, under the rules of calls.outbound, and its answer
    pinned   a document cut to its chosen operations, as manage.py mcp_openapi writes it
"""

from __future__ import annotations

from mcp_bridge.ext.openapi.source import OpenAPISource

__all__ = ["OpenAPISource"]
