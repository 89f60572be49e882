from __future__ import annotations

from django.apps import AppConfig


class OpenAPIConfig(AppConfig):
    """The app that provides the command ``mcp_openapi``."""

    name = "mcp_bridge.ext.openapi"
    label = "mcp_bridge_openapi"
    verbose_name = "MCP: OpenAPI"
