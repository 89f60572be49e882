"""Requests to upstream servers."""

from __future__ import annotations

from typing import Any

from mcp_bridge.protocol import JSONObject
from mcp_bridge.remote.client import Client, Exchange


def calling(tool: str, arguments: JSONObject | None = None, **options: Any) -> Exchange:
    """Return a call of a tool."""
    params = {"name": tool, "arguments": arguments or {}, **options.pop("more", {})}
    return Exchange(method="tools/call", params=params, name=tool, **options)


def tools_of(client: Client) -> JSONObject:
    """Return the first page of a server's tools."""
    return client.request(Exchange(method="tools/list"))
