"""A site that is its own authorization server, with the URLconf of a user's site."""

from __future__ import annotations

from django.contrib.auth.views import LoginView
from django.urls import include, path

from mcp_bridge.views import AsyncMCPView
from tests.oauth.tools import server

urlpatterns = [
    path("rpc", server.view),
    path("login/", LoginView.as_view(template_name="admin/login.html"), name="login"),
    path("async", AsyncMCPView.as_view()),
    path("", include("mcp_bridge.oauth.urls")),
    path("", include("mcp_bridge.urls")),
]
