"""Functions to serve as tools, and the registry's view of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp_bridge.features.tools import Tool
from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.registry import registry


def served(name: str) -> Tool:
    """Return the tool of that name."""
    tool = registry.discovered.tools.get(name)
    assert tool is not None, [message.msg for message in registry.discovered.messages]
    return tool


def names() -> list[str]:
    """Return the names of all tools, regardless of the caller."""
    return [tool.name for tool in registry.discovered]


def messages(id: str) -> list[str]:
    """Return the messages of the checks with an id."""
    found = [message for message in registry.discovered.messages if message.id == id]
    assert all(message.hint for message in found)
    return [str(message.msg) for message in found]


def set_tool(name: str, *, kind: str = "tool", **values: Any) -> ToolSetting:
    """Save values in the row of a tool, or of another kind; migrations may have written it."""
    return ToolSetting.objects.update_or_create(kind=kind, name=name, defaults=values)[0]


def taking(hint: Any) -> Callable[..., Any]:
    """Return a function with one parameter, ``value``, of that hint; it returns its repr."""

    def take(value):  # type: ignore[no-untyped-def]
        """Take a value."""
        return repr(value)

    take.__annotations__ = {"value": hint}
    return take


def giving(hint: Any, value: Any) -> Callable[[], Any]:
    """Return a function that returns the value, and declares that hint."""

    def give():  # type: ignore[no-untyped-def]
        """Give a value."""
        return value

    give.__annotations__ = {"return": hint}
    return give
