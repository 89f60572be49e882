"""Signals after which the registry reads its tools or the administrators' settings again."""

from __future__ import annotations

import logging

from django.apps import AppConfig
from django.core.signals import setting_changed
from django.db import connections, router
from django.db.models.signals import post_migrate

from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import sync_tool_settings
from mcp_bridge.signals import tools_changed

logger = logging.getLogger("mcp_bridge.approval")


def connect(app: AppConfig) -> None:
    """Connect the receivers; ``app`` is the one after whose migration the rows are written."""
    # Only tests change settings while a process runs.
    setting_changed.connect(read_after_setting, dispatch_uid="mcp_bridge.read_after_setting")
    tools_changed.connect(read_after_change, dispatch_uid="mcp_bridge.read_after_change")
    post_migrate.connect(write_rows, sender=app, dispatch_uid="mcp_bridge.write_rows")


def read_after_setting(*, setting: str, **kwargs: object) -> None:
    """Have the tools read again after a change of a Django setting on which they depend."""
    if setting in ("MCP_BRIDGE", "ROOT_URLCONF"):
        registry.settings_changed()


def read_after_change(**kwargs: object) -> None:
    """Have the administrators' settings read again by the next request."""
    registry.settings_changed()


def write_rows(*, using: str, **kwargs: object) -> None:
    """Write a row for each tool to the database that was migrated; an error is logged."""
    table = ToolSetting._meta.db_table
    # After a migration backwards there is no table.
    if (
        using != router.db_for_write(ToolSetting)
        or table not in connections[using].introspection.table_names()
    ):
        return
    try:
        sync_tool_settings(registry.discovered)
    except Exception:
        logger.exception("The tools could not be written down; the admin does it when it is opened")
