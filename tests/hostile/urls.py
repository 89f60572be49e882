"""The addresses of the site of fault tools, asynchronous if its server is."""

from __future__ import annotations

import os

from django.urls import include, path

kind = "urls_async" if os.environ.get("HOSTILE_ASYNC") == "1" else "urls"
urlpatterns = [path("", include(f"mcp_bridge.{kind}"))]
