from __future__ import annotations

from django.apps import AppConfig
from django.core import checks

from mcp_bridge.schemas.django import install


class MCPBridgeConfig(AppConfig):
    name = "mcp_bridge"
    verbose_name = "MCP bridge"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # These import models, which Django has loaded only now.
        from mcp_bridge.checks.settings import check_settings, check_tools
        from mcp_bridge.registry import receivers

        install()
        checks.register(check_settings, "mcp_bridge")
        checks.register(check_tools, "mcp_bridge")
        receivers.connect(self)
