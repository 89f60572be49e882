"""The tables of the core app."""

from __future__ import annotations

from mcp_bridge.models.calls import PendingCall, ToolCallRecord, UsedState
from mcp_bridge.models.scopes import Scope
from mcp_bridge.models.tool_settings import Generation, ToolSetting

__all__ = ["Generation", "PendingCall", "Scope", "ToolCallRecord", "ToolSetting", "UsedState"]
