from __future__ import annotations

from typing import ClassVar

from django.apps import AppConfig
from django.core import checks

from mcp_bridge.protocol import JSONObject


class RemoteConfig(AppConfig):
    name = "mcp_bridge.remote"
    label = "mcp_bridge_remote"
    verbose_name = "MCP"
    default_auto_field = "django.db.models.BigAutoField"
    # Added to the default sources (mcp_bridge.conf).
    mcp_sources: ClassVar[JSONObject] = {
        "remote": {"BACKEND": "mcp_bridge.remote.source.RemoteSource"}
    }

    def ready(self) -> None:
        from mcp_bridge.remote.checks import check_remote, check_remote_rows

        checks.register(check_remote, "mcp_bridge")
        checks.register(check_remote_rows, "mcp_bridge", deploy=True)
