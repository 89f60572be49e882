"""
The process of the weather desk, on the official SDK.

``python -m testproject.demo.desk_server 3 TEXT`` serves the listening socket with descriptor 3;
TEXT is the description of its tool.
"""

from __future__ import annotations

import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("weather desk", log_level="ERROR")


@server.tool(description=sys.argv[2])
def warnings(region: str) -> list[str]:
    return [f"{region}: gusts of 70 km/h from the west until midnight"]


if __name__ == "__main__":
    config = uvicorn.Config(server.streamable_http_app(), log_level="error", ws="none")
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
