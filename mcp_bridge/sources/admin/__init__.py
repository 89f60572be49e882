"""Serve the pages of a site's admin as tools."""

from __future__ import annotations

from mcp_bridge.sources.admin.source import AdminSource

__all__ = ["AdminSource"]
