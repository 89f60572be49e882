"""The benchmark's site with an endpoint that calls more functions than it needs."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.urls import path

from benchmarks.site.bridge import urlpatterns as faster
from mcp_bridge.views import MCPView

view: Callable[[HttpRequest], HttpResponse] = MCPView.as_view()


def idle() -> None:
    """Do nothing, at the cost of a call."""


def slower(request: HttpRequest) -> HttpResponse:
    for _ in range(100):
        idle()
    return view(request)


slower.csrf_exempt = True  # type: ignore[attr-defined]

urlpatterns = [path("mcp", slower), *faster]
