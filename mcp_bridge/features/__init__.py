"""What a server offers, without a framework: the marks, tools, tool calls and their context."""

from __future__ import annotations

from mcp_bridge.features.marks import ToolOptions, mcp_namespace, mcp_tool, mcp_toolset
from mcp_bridge.features.texts import dotted_name
from mcp_bridge.features.tools import AccessRule, Client, Context, Tool, ToolCall

__all__ = [
    "AccessRule",
    "Client",
    "Context",
    "Tool",
    "ToolCall",
    "ToolOptions",
    "dotted_name",
    "mcp_namespace",
    "mcp_tool",
    "mcp_toolset",
]
