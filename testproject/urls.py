from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from testproject.newsroom.moderation import api as moderation
from testproject.newsroom.procedures import server

urlpatterns = [
    path("admin/", admin.site.urls),
    path("rpc", server.view),
    path("moderation/", moderation.urls),
    path("", include("mcp_bridge.urls")),
]
