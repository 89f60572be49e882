from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class TokensConfig(AppConfig):
    name = "mcp_bridge.tokens"
    label = "mcp_bridge_tokens"
    verbose_name = _("MCP: tokens")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from mcp_bridge.tokens.outgrown import connect

        connect()
