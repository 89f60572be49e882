"""
Where users issue and revoke their own tokens: ``path("mcp/tokens/", include(...))``.

Leave it out where only administrators are to issue tokens.
"""

from __future__ import annotations

from django.urls import path

from mcp_bridge.tokens.views import OwnTokensView

urlpatterns = [path("", OwnTokensView.as_view(), name="mcp-tokens")]
