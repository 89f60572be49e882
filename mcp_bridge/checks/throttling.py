"""System checks of throttle classes and rates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.core import checks
from django.utils.module_loading import import_string
from rest_framework.throttling import BaseThrottle, ScopedRateThrottle, SimpleRateThrottle

from mcp_bridge.access.throttling import EVERY_TOOL, ToolRateThrottle, make_throttle
from mcp_bridge.conf import conf
from mcp_bridge.features import Tool

_BACKENDS = ("django.core.cache.backends.redis.RedisCache", "django_redis.cache.RedisCache")


def throttling(tools: Iterable[Tool]) -> Iterator[checks.CheckMessage]:
    """
    Check THROTTLE_CLASSES and THROTTLE_RATES, which have the right types, and marks' rates.

    ``tools`` are all tools that there are. Where a class cannot be used, nothing else is checked.
    """
    tools = list(tools)
    errors = list(map(_class_error, conf.THROTTLE_CLASSES))
    if any(errors):
        yield from filter(None, errors)
        return
    classes: list[type[BaseThrottle]] = list(map(import_string, conf.THROTTLE_CLASSES))
    rates, marks = conf.THROTTLE_RATES, {tool.options.throttle for tool in tools}
    names = {EVERY_TOOL, *(tool.name for tool in tools)}
    yield from _unset_rates(tools)
    # The scopes of a ScopedRateThrottle are those of views, which are not known here.
    if not any(issubclass(each, ScopedRateThrottle) for each in classes):
        known = names | marks | {getattr(each, "scope", None) for each in classes}
        for name in filter(lambda name: name not in known, rates):
            yield checks.Warning(
                f"MCP_BRIDGE['THROTTLE_RATES'] names {name!r}, which is no tool, no rate of a "
                "mark and no scope of a class in THROTTLE_CLASSES.",
                hint="Names of tools are those that manage.py mcp_tools shows.",
                id="mcp_bridge.W020",
            )
    rated = any(marks) or not names.isdisjoint(rates)
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


def _class_error(path: str) -> checks.Error | None:
    """Return the error for a path of THROTTLE_CLASSES that no throttle can be made of."""
    text = None
    try:
        if issubclass(found := import_string(path), BaseThrottle):
            throttle = make_throttle(found)
            scoped = isinstance(throttle, ScopedRateThrottle)
            if isinstance(throttle, SimpleRateThrottle) and not scoped and throttle.rate is None:
                text = f"limits nothing: its scope {throttle.scope!r} has no rate"
        else:
            text = "is no subclass of BaseThrottle"
    except Exception as exception:
        text = f"cannot be used ({type(exception).__name__}: {exception})"
    if text is None:
        return None
    return checks.Error(
        f"MCP_BRIDGE['THROTTLE_CLASSES'] names {path!r}, which {text}.",
        hint="Give the path of a DRF throttle class, and its scope a rate in "
        "MCP_BRIDGE['THROTTLE_RATES'].",
        id="mcp_bridge.E020",
    )


def _unset_rates(tools: Iterable[Tool]) -> Iterator[checks.Error]:
    """Yield the errors of marks that name a rate which THROTTLE_RATES does not have."""
    for tool in tools:
        name = tool.options.throttle
        if not name or "/" in name or name in conf.THROTTLE_RATES:
            continue
        hint = f'Add {name!r} there, or write a rate in the mark: mcp_tool(throttle="20/min").'
        if re.search(r"[\d\s]", name):
            hint = (
                f"{name!r} is no rate, so it is taken for a name. Write a number, a slash and s, "
                'min, hour or day: mcp_tool(throttle="20/min"). If it is a name, give it a rate '
                "there."
            )
        yield checks.Error(
            f"The tool {tool.name!r} ({tool.source}) has the rate {name!r}, which "
            "MCP_BRIDGE['THROTTLE_RATES'] does not have: every call of it fails.",
            hint=hint,
            id="mcp_bridge.E021",
        )


def _may_hang() -> bool:
    """Return whether the default cache is a Redis without a timeout for its answers."""
    config = settings.CACHES.get("default", {})
    if config.get("BACKEND") not in _BACKENDS:
        return False
    given = {name.lower() for name in config.get("OPTIONS", {})}
    location = config.get("LOCATION", "")
    address = location if isinstance(location, str) else next(iter(location), "")
    return "socket_timeout" not in given | parse_qs(urlsplit(address).query).keys()
