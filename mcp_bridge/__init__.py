"""
Serve a Django site's procedures to language models as MCP tools.

mcp_tool marks a function as a tool, mcp_resource as a resource and mcp_prompt as a prompt;
mcp_toolset marks the methods of a class, and mcp_namespace a namespace of django-modern-rpc;
ToolError is for the model, RejectError for the client, and Context says who calls. They need no
Django.
"""

from __future__ import annotations

from mcp_bridge.exceptions import RejectError, ToolError
from mcp_bridge.features import (
    Context,
    mcp_namespace,
    mcp_prompt,
    mcp_resource,
    mcp_tool,
    mcp_toolset,
)

__all__ = ["Context", "RejectError", "ToolError", "mcp_namespace", "mcp_prompt", "mcp_resource"]
__all__ += ["mcp_tool", "mcp_toolset"]
__version__ = "0.1.0"
