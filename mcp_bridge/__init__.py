"""
Serve a Django site's procedures to language models as MCP tools.

Three names are needed where tools are written: mcp_tool marks a function, ToolError tells the
model what went wrong, and Context tells the function who calls. mcp_toolset is for the methods of a
class, and mcp_namespace for a namespace of django-modern-rpc. Importing them needs no Django.
"""

from __future__ import annotations

from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import Context, mcp_namespace, mcp_tool, mcp_toolset

__all__ = ["Context", "ToolError", "mcp_namespace", "mcp_tool", "mcp_toolset"]
__version__ = "0.1.0"
