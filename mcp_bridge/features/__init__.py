"""The features of a server, free of any framework: marks, tools, tool calls and their context."""

from __future__ import annotations

from mcp_bridge.features.context import Client, Context
from mcp_bridge.features.feature import AccessRule, AnyFeature, Feature, Key, dotted_name
from mcp_bridge.features.marks import ToolOptions, mcp_namespace, mcp_tool, mcp_toolset
from mcp_bridge.features.tools import Tool, ToolCall

__all__ = ["AccessRule", "AnyFeature", "Client", "Context", "Feature", "Key", "Tool", "ToolCall"]
__all__ += ["ToolOptions", "dotted_name", "mcp_namespace", "mcp_tool", "mcp_toolset"]
