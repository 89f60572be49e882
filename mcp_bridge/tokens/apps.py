from __future__ import annotations

from django.apps import AppConfig


class TokensConfig(AppConfig):
    name = "mcp_bridge.tokens"
    label = "mcp_bridge_tokens"
    verbose_name = "MCP: tokens"
    default_auto_field = "django.db.models.BigAutoField"
