"""The newsroom's endpoint as a site under ASGI includes it."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("", include("mcp_bridge.urls_async"))]
