"""A site whose server runs in a separate process, with a tool that reads and one that acts."""

from __future__ import annotations

import os
import time

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.processes.served_settings")
django.setup()

from django.contrib.auth.models import Group  # noqa: E402
from django.core.handlers.asgi import ASGIHandler  # noqa: E402
from django.core.handlers.wsgi import WSGIHandler  # noqa: E402
from django.urls import include, path  # noqa: E402
from modernrpc.server import RpcServer  # noqa: E402

from mcp_bridge import mcp_tool  # noqa: E402
from mcp_bridge.ext.lane import MCPApplication  # noqa: E402
from mcp_bridge.views import AsyncMCPView, MCPView  # noqa: E402

server = RpcServer(register_system_procedures=False)


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def look(number: int, seconds: float = 0) -> int:
    """Look at a number for a while."""
    time.sleep(seconds)
    return number


@server.register_procedure
@mcp_tool(public=True)
def act(number: int) -> int:
    """Write a group."""
    Group.objects.create(name=f"group {number}")
    return number


@server.register_procedure
@mcp_tool(public=True)
def hold(number: int, seconds: float) -> int:
    """Write a group, and keep others from writing for a while."""
    Group.objects.create(name=f"held {number}")
    time.sleep(seconds)
    return number


urlpatterns = [
    path("rpc", server.view),
    path("mcp", MCPView.as_view()),
    path("amcp", AsyncMCPView.as_view()),
    path("", include("mcp_bridge.urls")),
]
wsgi = WSGIHandler()
asgi = ASGIHandler()
direct = MCPApplication(asgi)
