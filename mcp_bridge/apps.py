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

if sys.argv[1:2] == ["mcp_stdio"] and "--help" not in sys.argv:
    # The apps that are imported from now on may print.
    from mcp_bridge.transports.stdio import take_streams

    take_streams()


class MCPBridgeConfig(AppConfig):
    name = "mcp_bridge"
    verbose_name = "MCP"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # These import models, so they can be imported only after Django has loaded all apps.
        from mcp_bridge.conf import conf
        from mcp_bridge.registry.registry import registry
        from mcp_bridge.schemas.django import register_adapters

        register_adapters()
        # Imported by name, if present: the core does not depend on ext.
        for extra in ("structs", "wagtail"):
            if find_spec(f"mcp_bridge.ext.{extra}"):
                import_string(f"mcp_bridge.ext.{extra}.register_adapters")()
        for name in ("settings", "tools", "urls", "procedures"):
            checks.register(_imported(f"{name}.check_{name}"), "mcp_bridge")
        for name in ("deployment", "service", "tables"):
            checks.register(_imported(f"deployment.check_{name}"), "mcp_bridge", deploy=True)
        tools_changed.connect(registry.settings_changed, dispatch_uid="mcp_bridge.tools_changed")
        # Settings change at run time only in tests.
        setting_changed.connect(registry.settings_changed, dispatch_uid="mcp_bridge.settings")
        post_migrate.connect(registry.write_rows, sender=self, dispatch_uid="mcp_bridge.rows")
        if conf.BUILD == "eager" and not _is_command():
            registry.build_now()


def _is_command() -> bool:
    """Return whether this is a management command: it may have to migrate before tools load."""
    program = Path(sys.argv[0]) if sys.argv else Path()
    is_module = program.parts[-2:] == ("django", "__main__.py")
    return is_module or program.name in ("manage.py", "django-admin")


# Cached, since registering a check twice must register the same object.
@cache
def _imported(path: str) -> Callable[..., Sequence[checks.CheckMessage]]:
    """Return a check that is imported when it runs: serving processes never import the checks."""

    def check(**options: Any) -> Sequence[checks.CheckMessage]:
        found: Sequence[checks.CheckMessage]
        found = import_string("mcp_bridge.checks.settings.check_settings")()
        if path != "settings.check_settings":
            # With an invalid setting the other checks could fail, so only the setting is reported.
            is_read = all(each.level < checks.ERROR for each in found)
            found = import_string(f"mcp_bridge.checks.{path}")(**options) if is_read else []
        return found

    return check
