from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.signals import setting_changed
from django.db.models.signals import post_migrate
from django.utils.module_loading import import_string

from mcp_bridge.signals import tools_changed


class MCPBridgeConfig(AppConfig):
    name = "mcp_bridge"
    verbose_name = "MCP"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # These import models, which can be imported only now, when Django has loaded them all.
        from mcp_bridge.conf import conf
        from mcp_bridge.registry.registry import registry
        from mcp_bridge.schemas.django import register_adapters

        register_adapters()
        # By their names, if they are there: the core imports nothing of ext.
        for extra in ("structs", "wagtail"):
            if find_spec(f"mcp_bridge.ext.{extra}"):
                import_string(f"mcp_bridge.ext.{extra}.register_adapters")()
        for name in ("settings", "tools", "urls", "procedures"):
            checks.register(_imported(f"{name}.check_{name}"), "mcp_bridge")
        for name in ("deployment", "service", "tables"):
            checks.register(_imported(f"deployment.check_{name}"), "mcp_bridge", deploy=True)
        tools_changed.connect(registry.settings_changed, dispatch_uid="mcp_bridge.tools_changed")
        # Only tests change settings while a process runs.
        setting_changed.connect(registry.settings_changed, dispatch_uid="mcp_bridge.settings")
        post_migrate.connect(registry.write_rows, sender=self, dispatch_uid="mcp_bridge.rows")
        if conf.BUILD == "eager" and not _is_command():
            registry.build_now()


def _is_command() -> bool:
    """Return whether this process runs a command: a migration may have to come before the tools."""
    program = Path(sys.argv[0]) if sys.argv else Path()
    is_module = program.parts[-2:] == ("django", "__main__.py")
    return is_module or program.name in ("manage.py", "django-admin")


# Kept, since a check that is registered again must be the same one.
@cache
def _imported(path: str) -> Callable[..., Sequence[checks.CheckMessage]]:
    """Return a check that is imported when it runs: a process that serves runs none."""

    def check(**options: Any) -> Sequence[checks.CheckMessage]:
        found: Sequence[checks.CheckMessage]
        found = import_string("mcp_bridge.checks.settings.check_settings")()
        if path != "settings.check_settings":
            # A wrong setting can stop the others from reading anything; it is reported by itself.
            is_read = all(each.level < checks.ERROR for each in found)
            found = import_string(f"mcp_bridge.checks.{path}")(**options) if is_read else []
        return found

    return check
