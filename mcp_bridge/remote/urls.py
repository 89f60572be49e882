"""Remote servers as a whole: ``path("mcp/remote/", include("mcp_bridge.remote.urls"))``."""

from __future__ import annotations

from django.urls import path

from mcp_bridge.conf import require_app

require_app("mcp_bridge.remote")

from mcp_bridge.remote.views import RemoteView  # noqa: E402

urlpatterns = [path("<slug:slug>", RemoteView.as_view(), name="mcp-remote")]
