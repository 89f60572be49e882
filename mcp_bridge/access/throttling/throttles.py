"""
How often a caller may call a tool, and what becomes of counting without the cache.

Throttles are DRF's. Those of the setting THROTTLE_CLASSES that are a ToolRateThrottle are asked for
each call of a tool, all others for each request (see ``mcp_bridge.access.authentication``).
"""

from __future__ import annotations

import math
import time
from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from django.core.cache import cache as default_cache
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle, SimpleRateThrottle

from mcp_bridge.access.throttling.counters import PAUSE, count_locally, count_or_none, increment
from mcp_bridge.conf import conf
from mcp_bridge.features.context import Context
from mcp_bridge.features.rates import Rate, parse_rate
from mcp_bridge.features.tools import Tool
from mcp_bridge.protocol.content import CallToolResult

# Where the seconds to wait stand in a refused call's _meta.
RETRY_KEY: Final = "mcp-bridge/retryAfter"
# The rate of tools without one of their own.
EVERY_TOOL: Final = "tools"
# Where a request says that a throttle let it pass uncounted; no header can have that name.
UNCOUNTED: Final = "mcp_bridge.uncounted"


class ToolRateThrottle(BaseThrottle):
    """
    Counts the calls of each tool by each caller, exactly, in fixed windows.

    ``cache`` is where, and ``timer`` the clock, as in DRF's SimpleRateThrottle. ``rate`` is that
    of the tool which was asked for last.
    """

    cache: Any = default_cache
    timer: Callable[[], float] = staticmethod(time.time)
    rate: Rate | None = None
    _left = 0.0

    def get_rate(self, tool: Tool) -> Rate | None:
        """The owner's rate, the setting's for the tool, the mark's, or that of every tool."""
        rates, mark = conf.THROTTLE_RATES, tool.options.throttle
        if tool.rate:
            text: str | None = tool.rate
        elif tool.name in rates:
            text = rates[tool.name]
        elif mark and "/" not in mark:
            if mark not in rates:
                raise ImproperlyConfigured(f"THROTTLE_RATES has no {mark!r}, as {tool.name} asks.")
            text = rates[mark]
        else:
            text = mark or rates.get(EVERY_TOOL)
        return None if text is None else parse_rate(text)

    def get_caller(self, context: Context) -> tuple[str, str]:
        """Whose count it is: of a user, else of a credential, else of an address."""
        user = context.user
        if user is not None and user.is_authenticated and user.pk is not None:
            return "user", str(user.pk)
        if context.auth is not None:
            return "credential", _identity(context.auth)
        return "address", self.get_ident(context.request)

    def get_ident(self, request: Any) -> str:
        return _address(super().get_ident, request)

    def allow_call(self, tool: Tool, context: Context) -> bool | None:
        """Count a call; whether it may run, or None where it could not be counted."""
        self.rate = rate = self.get_rate(tool)
        if rate is None:
            return True
        about = repr((*self.get_caller(context), tool.name))

        def within() -> bool:
            count, self._left = increment(self.cache, about, rate.seconds, self.timer())
            return count <= rate.calls

        allowed = count_or_none(self, within)
        if allowed is None and not is_closed(tool):
            return count_locally(self, within)
        return allowed

    def wait(self) -> float | None:
        """The seconds to the next window."""
        return self._left if self.rate else None


def _address(by_headers: Callable[[Any], Any], request: Any) -> str:
    """The caller's address; X-Forwarded-For counts where DRF's NUM_PROXIES is set."""
    if api_settings.NUM_PROXIES is None:
        return str(request.META.get("REMOTE_ADDR"))
    return str(by_headers(request))


class CredentialRateThrottle(ToolRateThrottle):
    """Counts each credential by itself, also where several are of one user."""

    def get_caller(self, context: Context) -> tuple[str, str]:
        if context.auth is not None:
            return "credential", _identity(context.auth)
        return super().get_caller(context)


def _identity(auth: Any) -> str:
    """What is the same whenever this credential comes."""
    if getattr(auth, "pk", None) is not None:
        return f"{type(auth).__qualname__} {auth.pk}"
    kind: Any = type(auth)
    if (kind.__str__, kind.__repr__) == (object.__str__, object.__repr__):
        # Its text would be its place in memory, another one each time.
        return str(kind.__qualname__)
    return str(auth)


def throttled(tool: Tool, context: Context) -> CallToolResult | None:
    """Count a call of the tool; the result to send in its place, or None where it may run."""
    if is_irreversible(tool) and UNCOUNTED in getattr(context.request, "META", ()):
        return _uncounted(tool)
    refusing = []
    for throttle in throttles(of_tools=True):
        allowed = throttle.allow_call(tool, context)
        if allowed is None:
            return _uncounted(tool)
        if not allowed:
            refusing.append(throttle)
    if not refusing:
        return None
    longest = max(refusing, key=lambda throttle: throttle.wait() or 0)
    said = f"{tool.name} may be called {longest.rate}." if longest.rate else f"{tool.name}."
    return _refusal(f"Too many calls: {said}", longest.wait())


def _uncounted(tool: Tool) -> CallToolResult:
    text = f"The tool {tool.name} cannot be called just now: the site cannot count its calls."
    return _refusal(text, PAUSE)


def _refusal(text: str, wait: float | None) -> CallToolResult:
    seconds = retry_after_seconds(wait)
    if seconds is None:
        return CallToolResult.error(text)
    text += f" Retry after {seconds} second{'s' * (seconds > 1)}."
    return CallToolResult.error(text, {RETRY_KEY: seconds})


def retry_after_seconds(wait: float | None) -> int | None:
    """The seconds to wait as a whole number, as HTTP and a model want it."""
    return None if wait is None else max(1, math.ceil(wait))


def is_irreversible(tool: Tool) -> bool:
    """Whether the tool never runs uncounted: what it does cannot be undone."""
    return tool.options.confirm or bool(tool.annotations.get("destructiveHint", False))


def is_closed(tool: Tool | None = None) -> bool:
    """Whether what cannot be counted is refused: a call of the tool, or a request."""
    closed = conf.THROTTLE_WITHOUT_CACHE != "open"
    return closed or (tool is not None and is_irreversible(tool))


def throttles(*, of_tools: bool) -> list[Any]:
    """New throttles of THROTTLE_CLASSES: those that count calls of tools, or requests."""
    classes = map(throttle_class, conf.THROTTLE_CLASSES)
    return [each() for each in classes if issubclass(each, ToolRateThrottle) is of_tools]


@lru_cache(maxsize=64)
def throttle_class(path: str) -> type[BaseThrottle]:
    """
    The class of that path; one of DRF's kind looks for its rate in THROTTLE_RATES first.

    It counts under other keys than in the site's own views: two rates cannot share one history.
    """
    found: type[BaseThrottle] = import_string(path)
    if issubclass(found, ToolRateThrottle) or not issubclass(found, BaseThrottle):
        return found
    if not issubclass(found, SimpleRateThrottle):
        return type(found.__name__, (found, _Addressed), {"__module__": found.__module__})
    others = found.THROTTLE_RATES

    def rates(throttle: SimpleRateThrottle) -> Mapping[str, str | None]:
        return ChainMap(dict(conf.THROTTLE_RATES), others)

    # Behind the class, so that what it does in a way of its own stays.
    kind = _Exact if _leaves_counting(found) else _Addressed
    changed = {"THROTTLE_RATES": property(rates), "cache_format": f"mcp_{found.cache_format}"}
    return type(found.__name__, (found, kind), {"__module__": found.__module__, **changed})


def _leaves_counting(found: type[SimpleRateThrottle]) -> bool:
    """Whether the class counts as DRF does, whatever it counts."""
    parts = ("throttle_success", "throttle_failure", "wait")
    return all(getattr(found, part) is getattr(SimpleRateThrottle, part) for part in parts)


class _Addressed(BaseThrottle):
    """Goes by no header for an address but where the site says how many proxies there are."""

    def get_ident(self, request: Any) -> str:
        return _address(super().get_ident, request)


class _Exact(_Addressed, SimpleRateThrottle):
    """
    Counts as ToolRateThrottle does.

    DRF reads a history and writes it back: of requests at the same moment it counts one.
    """

    _left = 0.0

    def allow_request(self, request: Any, view: Any) -> bool:
        key = None if self.rate is None else self.get_cache_key(request, view)
        if key is None:
            return True
        read: Any = self
        count, self._left = increment(self.cache, key, read.duration, self.timer())
        return bool(count <= read.num_requests)

    def wait(self) -> float:
        return self._left
