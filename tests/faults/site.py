"""A site whose database and cache fail, under WSGI, under ASGI, and on the direct lane."""

from __future__ import annotations

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.faults.site_settings")
django.setup()

from django.core.handlers.asgi import ASGIHandler  # noqa: E402
from django.core.handlers.wsgi import WSGIHandler  # noqa: E402
from django.urls import include, path  # noqa: E402

from mcp_bridge.ext.lane import MCPApplication  # noqa: E402

ASYNCHRONOUS = "FAULTS_ASYNC" in os.environ
urlpatterns = [path("", include("mcp_bridge.urls_async" if ASYNCHRONOUS else "mcp_bridge.urls"))]


def wsgi() -> WSGIHandler:
    return WSGIHandler()


def asgi() -> ASGIHandler:
    return ASGIHandler()


def lane() -> MCPApplication:
    return MCPApplication(ASGIHandler())
