"""The source of Django REST framework views."""

from __future__ import annotations

from mcp_bridge.sources.rest_framework.source import RESTFrameworkSource

__all__ = ["RESTFrameworkSource"]
