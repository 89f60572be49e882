"""The newsroom's endpoint as a site under ASGI includes it."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from testproject.newsroom.procedures import server

urlpatterns = [
    path("admin/", admin.site.urls),
    path("rpc", server.async_view),
    path("", include("mcp_bridge.urls_async")),
]
