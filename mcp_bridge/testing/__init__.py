"""
Test helpers for sites that use the app.

Two more modules are imported by their own names, since they need more than a site must have:
``mcp_bridge.testing.serving`` (django-modern-rpc) and ``mcp_bridge.testing.checked`` (the official
Python SDK, ``mcp``).
"""

from __future__ import annotations

from mcp_bridge.testing.client import MCPClient, MCPError, text_of

__all__ = ["MCPClient", "MCPError", "text_of"]
