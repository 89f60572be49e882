"""The same as ``urls``, under ASGI: ``include("mcp_bridge.remote.urls_async")``."""

from __future__ import annotations

from django.urls import path

from mcp_bridge.conf import require_app

require_app("mcp_bridge.remote")

from mcp_bridge.remote.views import AsyncRemoteView  # noqa: E402

urlpatterns = [path("<slug:slug>", AsyncRemoteView.as_view(), name="mcp-remote")]
