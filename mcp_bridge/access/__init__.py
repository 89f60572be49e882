"""May this call run: authentication, permission, throttling, a person's confirmation."""

from __future__ import annotations

from mcp_bridge.access.policy import AccessPolicy

__all__ = ["AccessPolicy"]
