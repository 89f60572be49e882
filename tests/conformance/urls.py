from __future__ import annotations

from django.urls import include, path

from tests.conformance.server import ConformanceView
from tests.conformance.tools import server

urlpatterns = [
    path("rpc", server.view),
    path("mcp", ConformanceView.as_view()),
    path("", include("mcp_bridge.urls")),
]
