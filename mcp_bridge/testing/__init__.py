"""Test helpers for sites that use the app."""

from __future__ import annotations

from mcp_bridge.testing.client import MCPClient, MCPError

__all__ = ["MCPClient", "MCPError"]
