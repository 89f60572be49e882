from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.signals import setting_changed

from mcp_bridge import django_types
from mcp_bridge.checks import check_settings, check_tools
from mcp_bridge.registry import registry


class MCPBridgeConfig(AppConfig):
    name = "mcp_bridge"
    verbose_name = "MCP bridge"

    def ready(self) -> None:
        django_types.install()
        checks.register(check_settings, "mcp_bridge")
        checks.register(check_tools, "mcp_bridge")
        # Only tests change settings while a process runs.
        setting_changed.connect(forget_tools, dispatch_uid="mcp_bridge.forget_tools")


def forget_tools(*, setting: str, **kwargs: Any) -> None:
    """Have the tools read again where a setting changed that says what they are."""
    if setting in ("MCP_BRIDGE", "ROOT_URLCONF"):
        registry.reload()
