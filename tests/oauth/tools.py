"""Tools that need scopes, or none."""

from __future__ import annotations

from django.http import HttpRequest
from modernrpc import RpcRequestContext
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool


def is_known(request: HttpRequest) -> bool:
    return bool(request.user.is_authenticated)


# Over HTTP, the view does not require scopes.
server = RpcServer(register_system_procedures=False, auth=is_known)


@server.register_procedure(context_target="context")
@mcp_tool(read_only=True, scopes="mcp")
def whoami(context: RpcRequestContext) -> str:
    """Say who calls."""
    return str(context.request.user.get_username())


@server.register_procedure
@mcp_tool(scopes=["mcp", "mcp:write"])
def write(text: str) -> str:
    """Write something."""
    return text
