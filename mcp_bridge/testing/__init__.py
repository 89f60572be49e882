"""Test helpers; ``serving`` and ``checked`` need django-modern-rpc and the Python SDK (mcp)."""

from __future__ import annotations

from mcp_bridge.testing.client import MCPClient, MCPError, text_of

__all__ = ["MCPClient", "MCPError", "text_of"]
