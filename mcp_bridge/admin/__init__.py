"""The admin pages of the core app; importing them registers them with Django's admin site."""

from __future__ import annotations

from mcp_bridge.admin.call_records import ToolCallRecordAdmin
from mcp_bridge.admin.pending_calls import PendingCallAdmin
from mcp_bridge.admin.scopes import ScopeAdmin
from mcp_bridge.admin.tool_settings import ToolSettingAdmin

__all__ = ["PendingCallAdmin", "ScopeAdmin", "ToolCallRecordAdmin", "ToolSettingAdmin"]
