from __future__ import annotations

import os

from django.urls import include, path

from tests.conformance.server import AsyncConformanceView, ConformanceView
from tests.conformance.tools import server

is_async = os.environ.get("CONFORMANCE_SERVER") == "uvicorn"
view = AsyncConformanceView if is_async else ConformanceView

urlpatterns = [
    path("rpc", server.view),
    path("mcp", view.as_view()),
    path("", include("mcp_bridge.urls")),
]
