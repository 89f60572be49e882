from __future__ import annotations

from django.apps import AppConfig


class TokensConfig(AppConfig):
    name = "mcp_bridge.tokens"
    label = "mcp_bridge_tokens"
    verbose_name = "MCP"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from mcp_bridge.tokens.outgrown import connect

        connect()
