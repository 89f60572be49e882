"""Two tools that do nothing: one only reads, by its mark, and one acts."""

from __future__ import annotations

from django.urls import include, path
from modernrpc import RpcServer

from mcp_bridge import mcp_tool

server = RpcServer()


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def read() -> None:
    """Read nothing."""


@server.register_procedure
@mcp_tool(public=True)
def act() -> None:
    """Do nothing."""


urlpatterns = [path("rpc", server.view), path("", include("mcp_bridge.urls"))]
