"""The URL patterns of ``mcp_bridge.urls`` for a site that runs under ASGI."""

from __future__ import annotations

from mcp_bridge.urls import endpoint, metadata
from mcp_bridge.views import AsyncMCPView

urlpatterns = [*endpoint(AsyncMCPView), *metadata]
