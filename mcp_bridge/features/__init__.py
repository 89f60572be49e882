"""What a server offers, without a framework: the mark, tools, tool calls and their context."""

from __future__ import annotations

from mcp_bridge.features.context import Client, Context
from mcp_bridge.features.marks import ToolOptions, mcp_tool
from mcp_bridge.features.tools import AccessRule, CurrentText, Tool, ToolCall

__all__ = [
    "AccessRule",
    "Client",
    "Context",
    "CurrentText",
    "Tool",
    "ToolCall",
    "ToolOptions",
    "mcp_tool",
]
