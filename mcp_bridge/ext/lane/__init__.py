"""The direct lane: serve the endpoint under ASGI without Django's handler and middleware."""

from __future__ import annotations

from mcp_bridge.ext.lane.application import MCPApplication

__all__ = ["MCPApplication"]
