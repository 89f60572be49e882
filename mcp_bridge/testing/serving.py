"""Small sites for single tests: functions at /rpc, and the tools made from them at /mcp."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, NoneType
from typing import Any

from django.urls import URLPattern, URLResolver, include, path
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.features.marks import ToolOptions, options_of


def addresses(*patterns: URLPattern | URLResolver, asynchronous: bool = False) -> ModuleType:
    """Return a URLconf of these patterns and the endpoint, for use as ROOT_URLCONF."""
    urlconf = ModuleType("mcp_bridge.testing.served")
    endpoint = include("mcp_bridge.urls_async" if asynchronous else "mcp_bridge.urls")
    vars(urlconf)["urlpatterns"] = [*patterns, path("", endpoint)]
    return urlconf


def route(settings: Any, *patterns: URLPattern | URLResolver, asynchronous: bool = False) -> None:
    """Set ROOT_URLCONF to ``addresses`` of these patterns, in pytest-django's ``settings``."""
    settings.ROOT_URLCONF = addresses(*patterns, asynchronous=asynchronous)


def serve(
    settings: Any, *functions: Callable[..., object], asynchronous: bool = False, **options: Any
) -> RpcServer:
    """
    Serve the functions as the only tools until the test ends; the view may be asynchronous.

    Each is marked with ``mcp_tool(**options)``, unless it is a resource or a prompt, and registered
    with a new RpcServer at /rpc.
    """
    server = RpcServer(register_system_procedures=False)
    for function in functions:
        is_other = type(options_of(function)) not in (NoneType, ToolOptions)
        server.register_procedure(function if is_other else mcp_tool(**options)(function))
    route(settings, path("rpc", server.view), asynchronous=asynchronous)
    return server
