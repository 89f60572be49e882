"""The newsroom's endpoint as a site under ASGI includes it."""

from __future__ import annotations

from django.urls import include, path

from testproject.newsroom.procedures import server
from testproject.urls import pages

urlpatterns = [
    *pages,
    path("rpc", server.async_view),
    path("", include("mcp_bridge.urls_async")),
]
