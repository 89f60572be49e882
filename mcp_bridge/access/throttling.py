"""
DRF throttles for calls of tools and for requests, and how they count.

A ToolRateThrottle of THROTTLE_CLASSES is asked for each call, in fixed windows in Django's cache;
all others for each request (``access.authentication``). A circuit breaker is for outages.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from traceback import walk_tb
from typing import Any, Final, cast

from django.core.cache import cache as default_cache
from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.locmem import LocMemCache
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from rest_framework.throttling import BaseThrottle, SimpleRateThrottle

from mcp_bridge.access.policy import address_of, caller_of, identify
from mcp_bridge.conf import conf, imported
from mcp_bridge.features import Context, Tool
from mcp_bridge.features.rates import Rate, parse_rate
from mcp_bridge.protocol import CallToolResult
from mcp_bridge.protocol.logs import get_logger

__all__ = ["CredentialRateThrottle", "ToolRateThrottle"]

logger = get_logger("mcp_bridge.throttling")

# The key of the seconds to wait in the _meta of a refused call's result.
RETRY_KEY: Final = "mcp-bridge/retryAfter"
# The name in THROTTLE_RATES of the rate of tools without one of their own.
EVERY_TOOL: Final = "tools"
# Set in the META of a request that a throttle let pass uncounted; no header can have that name.
UNCOUNTED: Final = "mcp_bridge.uncounted"
# After an error of a cache, in seconds: how long it is not asked, and how long nothing is logged.
PAUSE: Final = 1.0
_SILENCE: Final = 60.0

# The counts of this process while the cache does not answer.
_local: Final = LocMemCache("mcp_bridge.throttling", {"OPTIONS": {"MAX_ENTRIES": 10_000}})


class ToolRateThrottle(BaseThrottle):
    """
    Count the calls of each tool by each caller, exactly, in fixed windows.

    ``cache`` is where it counts and ``timer`` its clock, as in DRF's SimpleRateThrottle. ``rate``
    is the tool's rate of the last call. Each subclass has counts of its own.
    """

    cache: BaseCache = default_cache
    timer: Callable[[], float] = staticmethod(time.time)
    rate: Rate | None = None
    _left = 0.0

    def get_rate(self, tool: Tool) -> Rate | None:
        """
        Return the administrator's rate, the setting's for the tool, the mark's, or every tool's.

        Raises ImproperlyConfigured for a mark that names a rate which THROTTLE_RATES does not have,
        and ValueError for a rate that is none.
        """
        rates, mark = conf.THROTTLE_RATES, tool.options.throttle
        text = tool.rate or rates.get(tool.name, mark or rates.get(EVERY_TOOL))
        if mark and text == mark and "/" not in mark:
            if mark not in rates:
                raise ImproperlyConfigured(f"THROTTLE_RATES has no {mark!r}, as {tool.name} asks.")
            text = rates[mark]
        return None if text is None else parse_rate(text)

    def get_caller(self, context: Context) -> tuple[str, str]:
        """Return whose count it is: the user's, else the credential's, else the address's."""
        return caller_of(context, self.get_ident)

    def get_ident(self, request: Any) -> str:
        """Return the caller's network; X-Forwarded-For counts only if NUM_PROXIES is set."""
        return address_of(request)

    def allow_call(self, tool: Tool, context: Context) -> bool | None:
        """Count a call; return whether it may run, or None where it could not be counted."""
        self.rate = rate = self.get_rate(tool)
        if rate is None:
            return True
        about = (type(self), *self.get_caller(context), tool.name)
        count = partial(_count, self, about, rate.calls, rate.seconds)
        allowed = count_or_none(self, count)
        # What cannot be undone never runs uncounted.
        if allowed is None and conf.THROTTLE_WITHOUT_CACHE == "open" and not tool.is_irreversible:
            return count_locally(self, count)
        return allowed

    def wait(self) -> float | None:
        """Return the seconds to the next window."""
        return self._left if self.rate else None


class CredentialRateThrottle(ToolRateThrottle):
    """Count each credential by itself, also where several are of one user."""

    def get_caller(self, context: Context) -> tuple[str, str]:
        if context.auth is not None:
            return "credential", identify(context.auth)
        return super().get_caller(context)


def make_throttle(kind: type[BaseThrottle]) -> BaseThrottle:
    """
    Return a new throttle of a DRF class, with the rates, keys and addresses of this endpoint.

    It counts under other keys than in the site's own views, since two rates cannot share one
    history. Raises what its ``__init__`` raises, such as ImproperlyConfigured without a rate.
    """
    # Without __init__, which reads what is set here.
    throttle: Any = kind.__new__(kind)
    if kind.get_ident is BaseThrottle.get_ident:
        throttle.get_ident = address_of
    if issubclass(kind, SimpleRateThrottle):
        throttle.THROTTLE_RATES = {**throttle.THROTTLE_RATES, **conf.THROTTLE_RATES}
        throttle.cache_format = f"mcp_{throttle.cache_format}"
    throttle.__init__()
    return cast("BaseThrottle", throttle)


def _count(throttle: Any, about: tuple[object, ...], calls: int, seconds: int) -> bool:
    """Count what a call is ``about``, and set ``_left``; return if it is within ``calls``."""
    cache, (window, passed) = throttle.cache, divmod(throttle.timer(), seconds)
    # Hashed: a name or an address may hold what no key may, and a credential is secret.
    digest = hashlib.sha256(repr((*about, seconds, int(window))).encode()).hexdigest()
    key = f"mcp_bridge.throttling:{digest}"
    # Longer than the window: Redis makes a key without an end of one that ends while it is counted.
    timeout = 2 * seconds
    try:
        count = int(cache.incr(key))
    except ValueError:
        # The first of the window, unless another process has added it in between.
        count = 1 if cache.add(key, 1, timeout=timeout) else int(cache.incr(key))
    else:
        if getattr(cache.incr, "__func__", None) is BaseCache.incr:
            # Those of the database and of files write it back for their default TIMEOUT.
            cache.touch(key, timeout=timeout)
    throttle._left = seconds - passed
    return count <= calls


@dataclass
class CircuitBreaker:
    """Until when this process does not ask a cache, and when it last logged an error of it."""

    until: float = -math.inf
    warned: float = -math.inf


# By the cache's identity, since proxies of caches cannot be hashed; a throttle that names no cache
# has one for its class.
_breakers: defaultdict[int, CircuitBreaker] = defaultdict(CircuitBreaker)


def count_or_none(throttle: BaseThrottle, count: Callable[[], bool]) -> bool | None:
    """
    Return what ``count`` returns, or None while the throttle's cache does not answer.

    After an error it is not asked for PAUSE seconds, and then by one request for all. Any other
    exception of ``count`` is raised.
    """
    breaker = _breakers[id(getattr(throttle, "cache", type(throttle)))]
    now = time.monotonic()
    if now < breaker.until:
        return None
    if breaker.until > -math.inf:
        breaker.until = now + PAUSE
    try:
        # A class of the site's own may return a value of any kind.
        allowed = bool(count())
    except Exception as exception:
        if not _is_of_cache(exception):
            raise
        now = time.monotonic()
        breaker.until = now + PAUSE
        if now - breaker.warned >= _SILENCE:
            breaker.warned = now
            logger.warning("Calls cannot be counted: the cache does not answer", exc_info=True)
        return None
    breaker.until = -math.inf
    return allowed


def count_locally(throttle: BaseThrottle, count: Callable[[], bool]) -> bool:
    """Return what ``count`` returns when the throttle's cache is the memory of this process."""
    # One that names no cache would wait for the one that does not answer.
    if not hasattr(throttle, "cache"):
        return True
    throttle.cache = _local
    try:
        return bool(count())
    except Exception as exception:
        if not _is_of_cache(exception):
            raise
        return True


def _is_of_cache(exception: Exception) -> bool:
    """Return whether it left a method of a cache: what these raise has no class in common."""
    frames = (frame for frame, _ in walk_tb(exception.__traceback__))
    return any(isinstance(frame.f_locals.get("self"), BaseCache) for frame in frames)


@lru_cache(maxsize=4096)
def may_throttle(tool: Tool) -> bool:
    """Return whether calls of the tool have a rate, or never run uncounted; kept for each tool."""
    if tool.is_irreversible:
        return True
    kinds = map(imported, conf.THROTTLE_CLASSES)
    tools = [each for each in kinds if issubclass(each, ToolRateThrottle)]
    own = any(each.get_rate is not ToolRateThrottle.get_rate for each in tools)
    return own or any(each().get_rate(tool) is not None for each in tools)


setting_changed.connect(lambda **changed: may_throttle.cache_clear(), weak=False)


def throttled(tool: Tool, context: Context) -> CallToolResult | None:
    """Count a call of the tool; return the result to send in its place, or None if it may run."""
    uncounted = tool.is_irreversible and UNCOUNTED in getattr(context.request, "META", ())
    refusing: list[ToolRateThrottle] = []
    for kind in map(imported, () if uncounted else conf.THROTTLE_CLASSES):
        if issubclass(kind, ToolRateThrottle):
            throttle = kind()
            allowed = throttle.allow_call(tool, context)
            uncounted |= allowed is None
            if not allowed:
                refusing.append(throttle)
    if uncounted:
        text = f"The tool {tool.name} cannot be called just now: the site cannot count its calls."
        seconds = retry_after_seconds(PAUSE)
    elif refusing:
        longest = max(refusing, key=lambda throttle: throttle.wait() or 0)
        rate = f" may be called {longest.rate}" if longest.rate else ""
        text = f"Too many calls: {tool.name}{rate}."
        seconds = retry_after_seconds(longest.wait())
    else:
        return None
    if seconds is None:
        return CallToolResult.error(text)
    return CallToolResult.error(text + retry_advice(seconds), {RETRY_KEY: seconds})


def retry_after_seconds(wait: float | None) -> int | None:
    """Return the seconds to wait as a whole number, at least 1, as HTTP and a model want it."""
    return None if wait is None else max(1, math.ceil(wait))


def retry_advice(seconds: int | None) -> str:
    """Return the sentence that says when to retry, to be put after another one."""
    if seconds is None:
        return " Wait before the next."
    return f" Retry after {seconds} second{'s' * (seconds > 1)}."
