"""Throttle classes for calls of tools and for requests, and the counters they share."""

from __future__ import annotations

from mcp_bridge.access.throttling.throttles import CredentialRateThrottle, ToolRateThrottle

__all__ = ["CredentialRateThrottle", "ToolRateThrottle"]
