"""A site with as many tools as a test wants, all pending approval."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.urls import path
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.models import ToolSetting
from mcp_bridge.testing.serving import route


def serve_many(settings: Any, count: int, **configuration: Any) -> list[str]:
    """Serve tools beside the admin, every third of which only reads; return their names."""
    ToolSetting.objects.all().delete()
    settings.MCP_BRIDGE = {"NEW_TOOLS": "disabled", "STATE_MAX_AGE": 600, **configuration}
    server, names = RpcServer(register_system_procedures=False), []
    for number in range(count):

        def tool(word: str, times: int = 1) -> str:
            """Say a word several times, or once without a number. It says nothing more."""
            return word * times

        tool.__name__ = f"tool_{number:03}"
        hints = {"read_only": True} if number % 3 == 0 else {"destructive": number % 3 == 1}
        server.register_procedure(mcp_tool(**hints)(tool))
        names.append(tool.__name__)
    route(settings, path("rpc", server.view), path("admin/", admin.site.urls))
    return names
