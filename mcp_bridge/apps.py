from __future__ import annotations

import logging

from django.apps import AppConfig
from django.core import checks
from django.core.signals import setting_changed
from django.db import connections, router
from django.db.models.signals import post_migrate

from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import sync
from mcp_bridge.schemas.django import register_adapters
from mcp_bridge.signals import tools_changed

logger = logging.getLogger("mcp_bridge.approval")


class MCPBridgeConfig(AppConfig):
    name = "mcp_bridge"
    verbose_name = "MCP bridge"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # These import models, which Django has loaded only now.
        from mcp_bridge.checks.settings import check_settings
        from mcp_bridge.checks.tools import check_tools

        register_adapters()
        checks.register(check_settings, "mcp_bridge")
        checks.register(check_tools, "mcp_bridge")
        # Only tests change settings while a process runs.
        setting_changed.connect(forget_tools, dispatch_uid="mcp_bridge.forget_tools")
        tools_changed.connect(forget_state, dispatch_uid="mcp_bridge.forget_state")
        post_migrate.connect(write_tools, sender=self, dispatch_uid="mcp_bridge.write_tools")


def forget_tools(*, setting: str, **kwargs: object) -> None:
    """Have the tools read again where a setting changed that says which there are."""
    if setting in ("MCP_BRIDGE", "ROOT_URLCONF"):
        registry.settings_changed()


def forget_state(**kwargs: object) -> None:
    """Have the administrators' settings of tools read again with the next request."""
    registry.forget()


def write_tools(*, sender: AppConfig, using: str, **kwargs: object) -> None:
    """Write a row for each tool into the database that was migrated; never fail a migration."""
    model = sender.get_model("ToolSetting")
    # After a migration backwards there is no table.
    tables = connections[using].introspection.table_names
    if using != router.db_for_write(model) or model._meta.db_table not in tables():
        return
    try:
        sync(registry.discovered)
    except Exception:
        logger.exception("The tools could not be written down; the admin does it when it is opened")
