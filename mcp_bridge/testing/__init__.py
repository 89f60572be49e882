"""
Test helpers for sites that use the app.

``testing.serving`` and ``testing.checked`` are imported by their own names, since they need more
than a site must have: django-modern-rpc, and the official Python SDK (``mcp``).
"""

from __future__ import annotations

from mcp_bridge.testing.client import MCPClient, MCPError, text_of

__all__ = ["MCPClient", "MCPError", "text_of"]
