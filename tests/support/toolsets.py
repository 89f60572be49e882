"""A site whose tools are in toolsets."""

from __future__ import annotations

from typing import Any

from django.urls import path
from modernrpc.server import RpcServer

from mcp_bridge.testing.serving import route
from mcp_bridge.urls import endpoint, metadata
from mcp_bridge.views import AsyncMCPView, MCPView


def serve_toolsets(
    settings: Any, toolsets: Any, *functions: Any, asynchronous: bool = False
) -> None:
    """Serve marked functions, at the addresses of these toolsets too, until the test ends."""
    settings.MCP_BRIDGE = {**getattr(settings, "MCP_BRIDGE", {}), "TOOLSETS": toolsets}
    server = RpcServer(register_system_procedures=False)
    for function in functions:
        server.register_procedure(function)
    route(settings, path("rpc", server.view))
    # A URLconf has the addresses of the toolsets that exist when it is made.
    settings.ROOT_URLCONF.urlpatterns = [
        path("rpc", server.view),
        *endpoint(AsyncMCPView if asynchronous else MCPView),
        *metadata,
    ]
