"""What the system checks say of throttles and their rates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.core import checks
from rest_framework.throttling import BaseThrottle, ScopedRateThrottle, SimpleRateThrottle

from mcp_bridge.access.throttling.throttles import EVERY_TOOL, ToolRateThrottle, throttle_class
from mcp_bridge.conf import conf
from mcp_bridge.features.tools import Tool

_BACKENDS = ("django.core.cache.backends.redis.RedisCache", "django_redis.cache.RedisCache")


def throttling(tools: Iterable[Tool]) -> Iterator[checks.CheckMessage]:
    """What is wrong with THROTTLE_CLASSES and THROTTLE_RATES, which have the right types."""
    tools = list(tools)
    wrong = list(_classes())
    yield from wrong
    if wrong:
        return
    yield from _marks(tools)
    yield from _names(tools)
    marked = any(tool.options.throttle for tool in tools)
    rated = marked or any(name in conf.THROTTLE_RATES for name in _of_tools(tools))
    classes = [throttle_class(path) for path in conf.THROTTLE_CLASSES]
    counts = [issubclass(each, ToolRateThrottle) for each in classes]
    if rated and not any(counts):
        yield checks.Warning(
            "Tools have rates that nothing keeps: THROTTLE_CLASSES has no ToolRateThrottle.",
            hint="Add mcp_bridge.access.throttling.ToolRateThrottle to "
            "MCP_BRIDGE['THROTTLE_CLASSES'].",
            id="mcp_bridge.W021",
        )
    if (rated or not all(counts)) and _may_hang():
        yield checks.Warning(
            "Calls are counted in a Redis without a timeout: should it hang, so does every call.",
            hint="Give CACHES['default']['OPTIONS'] a socket_timeout and a socket_connect_timeout "
            "of 0.3 seconds; see docs/throttling.md.",
            id="mcp_bridge.W022",
        )


def _of_tools(tools: Iterable[Tool]) -> set[str]:
    return {EVERY_TOOL, *(tool.name for tool in tools)}


def _classes() -> Iterator[checks.CheckMessage]:
    for path in conf.THROTTLE_CLASSES:
        problem = _problem(path)
        if problem:
            yield checks.Error(
                f"MCP_BRIDGE['THROTTLE_CLASSES'] names {path!r}, which {problem}.",
                hint="Give the path of a DRF throttle class, and its scope a rate in "
                "MCP_BRIDGE['THROTTLE_RATES'].",
                id="mcp_bridge.E020",
            )


def _problem(path: str) -> str | None:
    try:
        if not issubclass(throttle_class(path), BaseThrottle):
            return "is no subclass of BaseThrottle"
        throttle: Any = throttle_class(path)()
    except Exception as exception:
        return f"cannot be used ({type(exception).__name__}: {exception})"
    scoped = isinstance(throttle, ScopedRateThrottle)
    if isinstance(throttle, SimpleRateThrottle) and not scoped and throttle.rate is None:
        return f"limits nothing: its scope {throttle.scope!r} has no rate"
    return None


def _marks(tools: Iterable[Tool]) -> Iterator[checks.CheckMessage]:
    for tool in tools:
        name = tool.options.throttle
        if name and "/" not in name and name not in conf.THROTTLE_RATES:
            yield checks.Error(
                f"The tool {tool.name!r} ({tool.source}) has the rate {name!r}, which "
                "MCP_BRIDGE['THROTTLE_RATES'] does not have: every call of it fails.",
                hint=_what_to_do(name),
                id="mcp_bridge.E021",
            )


def _what_to_do(name: str) -> str:
    """What a mark's rate that is not set was meant to be: a rate, or the name of one."""
    if re.search(r"[\d\s]", name):
        return (
            f"{name!r} is no rate, so it is taken for a name. Write a number, a slash and s, min, "
            'hour or day: mcp_tool(throttle="20/min"). If it is a name, give it a rate there.'
        )
    return f'Add {name!r} there, or write a rate in the mark: mcp_tool(throttle="20/min").'


def _names(tools: Iterable[Tool]) -> Iterator[checks.CheckMessage]:
    classes = [throttle_class(path) for path in conf.THROTTLE_CLASSES]
    if any(issubclass(each, ScopedRateThrottle) for each in classes):
        # Its scopes are those of views, which are not known here.
        return
    known = _of_tools(tools) | {str(getattr(each, "scope", None)) for each in classes}
    known |= {str(tool.options.throttle) for tool in tools}
    for name in conf.THROTTLE_RATES:
        if name not in known:
            yield checks.Warning(
                f"MCP_BRIDGE['THROTTLE_RATES'] names {name!r}, which is no tool, no rate of a "
                "mark and no scope of a class in THROTTLE_CLASSES.",
                hint="Names of tools are those that manage.py mcp_tools shows.",
                id="mcp_bridge.W020",
            )


def _may_hang() -> bool:
    """Whether the default cache is a Redis that is waited for as long as redis-py likes."""
    config: dict[str, Any] = settings.CACHES.get("default", {})
    if config.get("BACKEND") not in _BACKENDS:
        return False
    given = {name.lower() for name in config.get("OPTIONS", {})}
    location = config.get("LOCATION", "")
    address = location if isinstance(location, str) else next(iter(location), "")
    return "socket_timeout" not in given | parse_qs(urlsplit(address).query).keys()
