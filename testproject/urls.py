from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.generic import TemplateView

from testproject.newsroom.api import router
from testproject.newsroom.moderation import api as moderation
from testproject.newsroom.procedures import server

pages = [
    path("", TemplateView.as_view(template_name="newsroom/index.html"), name="index"),
    path("admin/", admin.site.urls),
    path("moderation/", moderation.urls),
    path("api/", include(router.urls)),
    path("mcp/tokens/", include("mcp_bridge.tokens.urls")),
    path("mcp/remote/", include("mcp_bridge.remote.urls")),
]
urlpatterns = [*pages, path("rpc", server.view), path("", include("mcp_bridge.urls"))]
