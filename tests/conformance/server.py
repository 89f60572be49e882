"""
The server with what the suite asks for and the protocol has deprecated since.

A site would add methods in the same way: a subclass of MCPServer, and a view that serves it.
"""

from __future__ import annotations

from mcp_bridge.features import Context
from mcp_bridge.protocol import JSONObject, Request
from mcp_bridge.server.methods import Endpoint
from mcp_bridge.server.server import MCPServer
from mcp_bridge.views import AsyncMCPView, MCPView


async def initialize(endpoint: MCPServer, request: Request, context: Context) -> JSONObject:
    """Answer the handshake with the deprecated capabilities added."""
    found = await MCPServer.legacy_methods["initialize"](endpoint, request, context)
    assert isinstance(found, dict)
    resources = {**found["capabilities"]["resources"], "subscribe": True}
    capabilities = {**found["capabilities"], "logging": {}, "resources": resources}
    return {**found, "capabilities": capabilities}


async def nothing(endpoint: Endpoint, request: Request, context: Context) -> JSONObject:
    """Return an empty result."""
    return {}


class ConformanceServer(MCPServer):
    asked_capabilities = MCPServer.asked_capabilities | {"sampling"}
    legacy_methods = {
        **MCPServer.legacy_methods,
        "initialize": initialize,  # type: ignore[dict-item]
        **dict.fromkeys(
            ("logging/setLevel", "resources/subscribe", "resources/unsubscribe"), nothing
        ),
    }


class ConformanceView(MCPView):
    always_notifies = True

    def get_server(self) -> MCPServer:
        return ConformanceServer()


class AsyncConformanceView(ConformanceView, AsyncMCPView):
    """The same under ASGI."""
