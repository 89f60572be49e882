"""The features of a server, free of any framework: marks, tools, tool calls and their context."""

from __future__ import annotations

from mcp_bridge.features.context import Client, Context
from mcp_bridge.features.feature import (
    AccessRule,
    AnyFeature,
    Completer,
    Feature,
    Key,
    ToolCall,
    as_text,
    dotted_name,
    key_of,
    label_of,
)
from mcp_bridge.features.marks import (
    ToolOptions,
    mcp_namespace,
    mcp_prompt,
    mcp_resource,
    mcp_tool,
    mcp_toolset,
)
from mcp_bridge.features.tools import Tool

__all__ = ["AccessRule", "AnyFeature", "Client", "Completer", "Context", "Feature", "Key", "Tool"]
__all__ += ["ToolCall", "ToolOptions", "as_text", "dotted_name", "key_of", "label_of"]
__all__ += ["mcp_namespace", "mcp_prompt", "mcp_resource", "mcp_tool", "mcp_toolset"]
