"""Small sites for single tests: a few procedures at /rpc, and the tools they make at /mcp."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from django.urls import include, path
from modernrpc.server import RpcServer

from mcp_bridge import mcp_tool
from mcp_bridge.features.tools import Tool
from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.registry import registry
from mcp_bridge.views import AsyncMCPView


def addresses(*patterns: Any, asynchronous: bool = False) -> ModuleType:
    """A URLconf of these patterns, with the endpoint added."""
    urlconf = ModuleType("tests.served")
    endpoint = [path("mcp", AsyncMCPView.as_view(), name="mcp")] if asynchronous else []
    urlconf.urlpatterns = [*patterns, *endpoint, path("", include("mcp_bridge.urls"))]  # type: ignore[attr-defined]
    return urlconf


def route(settings: Any, *patterns: Any, asynchronous: bool = False) -> None:
    """Make these the addresses of the site, with the endpoint added."""
    settings.ROOT_URLCONF = addresses(*patterns, asynchronous=asynchronous)


def serve(settings: Any, *functions: Any, asynchronous: bool = False, **options: Any) -> RpcServer:
    """Serve the functions, each marked with the options, and nothing else."""
    server = RpcServer(register_system_procedures=False)
    for function in functions:
        server.register_procedure(mcp_tool(**options)(function))
    route(settings, path("rpc", server.view), asynchronous=asynchronous)
    return server


def served(name: str) -> Tool:
    """The tool of that name."""
    tool = registry.discovered.tools.get(name)
    assert tool is not None, [message.msg for message in registry.discovered.messages]
    return tool


def names() -> list[str]:
    """The names of all tools there are, whoever may use them."""
    return [tool.name for tool in registry.discovered]


def messages(id: str) -> list[str]:
    """What the checks say under an id."""
    found = [message for message in registry.discovered.messages if message.id == id]
    assert all(message.hint for message in found)
    return [str(message.msg) for message in found]


def set_tool(name: str, **values: Any) -> ToolSetting:
    """Save values in the ToolSetting of a tool, which the migrations may have written before."""
    return ToolSetting.objects.update_or_create(name=name, defaults=values)[0]


def taking(hint: Any) -> Callable[..., Any]:
    """A function with one parameter, ``value``, of that hint; it returns its repr."""

    def take(value):  # type: ignore[no-untyped-def]
        """Take a value."""
        return repr(value)

    take.__annotations__ = {"value": hint}
    return take


def giving(hint: Any, value: Any) -> Callable[[], Any]:
    """A function that returns the value, and says it returns the hint."""

    def give():  # type: ignore[no-untyped-def]
        """Give a value."""
        return value

    give.__annotations__ = {"return": hint}
    return give
