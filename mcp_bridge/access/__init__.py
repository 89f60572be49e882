"""Access to tools: authentication, permissions and throttling."""

from __future__ import annotations

from mcp_bridge.access.policy import AccessPolicy

__all__ = ["AccessPolicy"]
