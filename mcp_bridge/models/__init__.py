"""The tables of the core app."""

from __future__ import annotations

from mcp_bridge.conf import require_app

require_app("mcp_bridge")

from mcp_bridge.models.calls import PendingCall, ToolCallRecord, UsedState  # noqa: E402
from mcp_bridge.models.scopes import Scope  # noqa: E402
from mcp_bridge.models.tool_settings import Generation, ToolSetting  # noqa: E402

__all__ = ["Generation", "PendingCall", "Scope", "ToolCallRecord", "ToolSetting", "UsedState"]
