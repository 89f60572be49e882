"""The tables of the core app."""

from __future__ import annotations

from mcp_bridge.models.call_records import ToolCallRecord
from mcp_bridge.models.pending_calls import PendingCall, UsedState
from mcp_bridge.models.tool_settings import Generation, ToolSetting

__all__ = ["Generation", "PendingCall", "ToolCallRecord", "ToolSetting", "UsedState"]
