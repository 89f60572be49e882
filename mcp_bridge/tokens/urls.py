"""
The page where users issue and revoke their own tokens: ``path("mcp/tokens/", include(...))``.

Omit it if only administrators may issue tokens.
"""

from __future__ import annotations

from django.urls import path

from mcp_bridge.conf import require_app

require_app("mcp_bridge.tokens")

from mcp_bridge.tokens.views import OwnTokensView  # noqa: E402

urlpatterns = [path("", OwnTokensView.as_view(), name="mcp-tokens")]
