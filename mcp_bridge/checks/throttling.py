"""Checks of throttles and their rates (E020, E021, W020 to W022)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.core import checks
from rest_framework.throttling import BaseThrottle, ScopedRateThrottle, SimpleRateThrottle

from mcp_bridge.access.throttling.throttles import EVERY_TOOL, ToolRateThrottle, throttle_class
from mcp_bridge.conf import conf
from mcp_bridge.features.tools import Tool

_REDIS: Final = (
    "django.core.cache.backends.redis.RedisCache",
    "django_redis.cache.RedisCache",
)


def check_throttling(tools: Iterable[Tool]) -> Iterator[checks.CheckMessage]:
    """Check THROTTLE_CLASSES and THROTTLE_RATES, whose types are right, against the tools."""
    wrong = [*_classes()]
    if wrong:
        yield from wrong
        return
    tools = list(tools)
    marks = {tool.options.throttle for tool in tools if tool.options.throttle}
    names = {EVERY_TOOL, *(tool.name for tool in tools)}
    classes = [throttle_class(path) for path in conf.THROTTLE_CLASSES]
    for tool in tools:
        mark = tool.options.throttle
        if mark and "/" not in mark and mark not in conf.THROTTLE_RATES:
            hint = f'Add {mark!r} there, or write a rate in the mark: mcp_tool(throttle="20/min").'
            if re.search(r"[\d\s]", mark):
                hint = (
                    f"{mark!r} is no rate, so it is taken for a name. Write a number, a slash and "
                    's, min, hour or day: mcp_tool(throttle="20/min"). If it is a name, give it a '
                    "rate there."
                )
            yield checks.Error(
                f"The tool {tool.name!r} ({tool.source}) has the rate {mark!r}, which "
                "MCP_BRIDGE['THROTTLE_RATES'] does not have: every call of it fails.",
                hint=hint,
                id="mcp_bridge.E021",
            )
    # The scopes of a ScopedRateThrottle are those of views, which are not known here.
    if not any(issubclass(each, ScopedRateThrottle) for each in classes):
        known = names | marks | {str(getattr(each, "scope", None)) for each in classes}
        for name in conf.THROTTLE_RATES:
            if name not in known:
                yield checks.Warning(
                    f"MCP_BRIDGE['THROTTLE_RATES'] names {name!r}, which is no tool, no rate of a "
                    "mark and no scope of a class in THROTTLE_CLASSES.",
                    hint="Names of tools are those that manage.py mcp_tools shows.",
                    id="mcp_bridge.W020",
                )
    rated = bool(marks) or not names.isdisjoint(conf.THROTTLE_RATES)
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


def _classes() -> Iterator[checks.CheckMessage]:
    """Check that each of THROTTLE_CLASSES can be made, and limits something."""
    for path in conf.THROTTLE_CLASSES:
        why = None
        try:
            throttle: object = throttle_class(path)()
            if not isinstance(throttle, BaseThrottle):
                why = "is no subclass of BaseThrottle"
        except Exception as exception:
            why = f"cannot be used ({type(exception).__name__}: {exception})"
        else:
            scoped = isinstance(throttle, ScopedRateThrottle)
            if isinstance(throttle, SimpleRateThrottle) and not scoped and throttle.rate is None:
                why = f"limits nothing: its scope {throttle.scope!r} has no rate"
        if why:
            yield checks.Error(
                f"MCP_BRIDGE['THROTTLE_CLASSES'] names {path!r}, which {why}.",
                hint="Give the path of a DRF throttle class, and its scope a rate in "
                "MCP_BRIDGE['THROTTLE_RATES'].",
                id="mcp_bridge.E020",
            )


def _may_hang() -> bool:
    """Return whether the default cache is a Redis that is waited for as long as redis-py likes."""
    config = settings.CACHES.get("default", {})
    if config.get("BACKEND") not in _REDIS:
        return False
    given = {name.lower() for name in config.get("OPTIONS", {})}
    location = config.get("LOCATION", "")
    address = location if isinstance(location, str) else next(iter(location), "")
    return "socket_timeout" not in given | parse_qs(urlsplit(address).query).keys()
