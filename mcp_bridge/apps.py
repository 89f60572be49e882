from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.core.signals import setting_changed
from django.db.models.signals import post_migrate
from django.utils.module_loading import import_string

from mcp_bridge.signals import tools_changed


class MCPBridgeConfig(AppConfig):
    name = "mcp_bridge"
    verbose_name = "MCP bridge"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # These import models, and DRF's views, which import the classes of the site's settings:
        # both can be imported only now, when Django has loaded every model.
        from mcp_bridge.checks.settings import check_settings
        from mcp_bridge.checks.tools import check_tools
        from mcp_bridge.checks.urls import check_urls
        from mcp_bridge.registry.registry import registry
        from mcp_bridge.schemas.django import register_adapters

        register_adapters()
        # By their names, since extras stand above the core; they import no library of their own.
        for extra in ("structs", "wagtail"):
            import_string(f"mcp_bridge.contrib.{extra}.register_adapters")()
        checks.register(check_settings, "mcp_bridge")
        checks.register(check_tools, "mcp_bridge")
        checks.register(check_urls, "mcp_bridge")
        tools_changed.connect(registry.settings_changed, dispatch_uid="mcp_bridge.tools_changed")
        # Only tests change settings while a process runs.
        setting_changed.connect(registry.settings_changed, dispatch_uid="mcp_bridge.settings")
        post_migrate.connect(registry.write_rows, sender=self, dispatch_uid="mcp_bridge.rows")
