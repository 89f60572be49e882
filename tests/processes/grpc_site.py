"""A site whose tools are methods of a remote service, one of which it calls before it forks."""

from __future__ import annotations

import os
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.processes.grpc_settings")
django.setup()

from django.contrib.auth.models import AnonymousUser  # noqa: E402
from django.core.handlers.wsgi import WSGIHandler  # noqa: E402
from django.urls import include, path  # noqa: E402

from mcp_bridge.features import Context, ToolCall  # noqa: E402
from mcp_bridge.registry.registry import registry  # noqa: E402

urlpatterns = [path("", include("mcp_bridge.urls"))]
wsgi = WSGIHandler()


def metadata(call: Any) -> list[tuple[str, str]]:
    return [("x-user", call.context.user.get_username()), ("x-process", str(os.getpid()))]


def call_once() -> None:
    tool = registry.discovered.tools["echo_look"]
    context = Context(user=AnonymousUser())
    tool.invoke(ToolCall(tool=tool, arguments=tool.check({}), context=context))


if "SERVED_TARGET" in os.environ:
    call_once()
