"""The newsroom's addresses, with the endpoint for ASGI in front if uvicorn serves them."""

from __future__ import annotations

import os

from django.urls import include, path

from testproject import authorization_urls

urlpatterns = authorization_urls.urlpatterns
if os.environ["CONFORMANCE_SERVER"] == "uvicorn":
    urlpatterns = [path("", include("mcp_bridge.urls_async")), *urlpatterns]
