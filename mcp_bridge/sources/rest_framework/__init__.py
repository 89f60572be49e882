"""Tools from the views of Django REST framework."""

from __future__ import annotations

from mcp_bridge.sources.rest_framework.source import RESTFrameworkSource

__all__ = ["RESTFrameworkSource"]
