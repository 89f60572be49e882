"""The bridge's direct lane, in front of the site under ASGI."""

from __future__ import annotations

from django.core.asgi import get_asgi_application

site = get_asgi_application()

from mcp_bridge.ext.lane import MCPApplication  # noqa: E402 - it needs the models

application = MCPApplication(site)
