"""
DRF throttles for tool calls and for requests, and how they count.

ToolRateThrottles in THROTTLE_CLASSES count each call, in fixed windows in Django's cache; all
others count each request (``access.authentication``). A circuit breaker handles cache outages.
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
from mcp_bridge.features import Context, Feature
from mcp_bridge.features.rates import Rate, parse_rate
from mcp_bridge.protocol import RETRY_KEY, CallToolResult
from mcp_bridge.protocol.logs import get_logger

__all__ = ["CredentialRateThrottle", "ToolRateThrottle"]

logger = get_logger("mcp_bridge.throttling")

# The name in THROTTLE_RATES of the default rate of tools.
EVERY_TOOL: Final = "tools"
# Set in the META of a request that a throttle passed uncounted; headers cannot set this name.
UNCOUNTED: Final = "mcp_bridge.uncounted"
# Seconds after a cache error without using the cache, and without logging again.
PAUSE: Final = 1.0
_SILENCE: Final = 60.0

# The counts of this process while the cache is unavailable.
_local: Final = LocMemCache("mcp_bridge.throttling", {"OPTIONS": {"MAX_ENTRIES": 10_000}})


class ToolRateThrottle(BaseThrottle):
    """
    A throttle that counts the calls of each tool by each caller, exactly, in fixed windows.

    ``cache`` stores the counts and ``timer`` is the clock, as in DRF's SimpleRateThrottle.
    ``rate`` is the rate of the tool last called. Each subclass counts separately.
    """

    cache: BaseCache = default_cache
    timer: Callable[[], float] = staticmethod(time.time)
    rate: Rate | None = None
    _left = 0.0

    def get_rate(self, tool: Feature) -> Rate | None:
        """
        Return the rate of a tool: the administrator's, the setting's, the mark's, or the default.

        Raises ImproperlyConfigured if the mark names a rate that THROTTLE_RATES lacks, and
        ValueError for an invalid rate.
        """
        rates, mark = conf.THROTTLE_RATES, tool.options.throttle
        text = tool.rate or rates.get(tool.name, mark or rates.get(EVERY_TOOL))
        if mark and text == mark and "/" not in mark:
            if mark not in rates:
                raise ImproperlyConfigured(f"THROTTLE_RATES lacks {mark!r}, used by {tool.name}.")
            text = rates[mark]
        return None if text is None else parse_rate(text)

    def get_caller(self, context: Context) -> tuple[str, str]:
        """Return the kind and key to count by: user, else credential, else address."""
        return caller_of(context, self.get_ident)

    def get_ident(self, request: Any) -> str:
        """Return the caller's network; X-Forwarded-For counts only if NUM_PROXIES is set."""
        return address_of(request)

    def allow_call(self, tool: Feature, context: Context) -> bool | None:
        """Count a call; return whether it may run, or None if it could not be counted."""
        self.rate = rate = self.get_rate(tool)
        if rate is None:
            return True
        about = (type(self), *self.get_caller(context), *tool.key)
        count = partial(_count, self, about, rate.calls, rate.seconds)
        allowed = count_or_none(self, count)
        # Irreversible tools are refused if the call cannot be counted.
        if allowed is None and conf.THROTTLE_WITHOUT_CACHE == "open" and not tool.is_irreversible:
            return count_locally(self, count)
        return allowed

    def wait(self) -> float | None:
        """Return the seconds until the next window."""
        return self._left if self.rate else None


class CredentialRateThrottle(ToolRateThrottle):
    """A ToolRateThrottle that counts by credential, even if several belong to one user."""

    def get_caller(self, context: Context) -> tuple[str, str]:
        if context.auth is not None:
            return "credential", identify(context.auth)
        return super().get_caller(context)


def make_throttle(kind: type[BaseThrottle]) -> BaseThrottle:
    """
    Return a new throttle of a DRF class, with the rates, keys and addresses of this endpoint.

    Its keys differ from those of the site's own views, since two rates cannot share one history.
    Raises the errors of its ``__init__``, such as ImproperlyConfigured without a rate.
    """
    # Created without __init__, which reads the attributes set here.
    throttle: Any = kind.__new__(kind)
    if kind.get_ident is BaseThrottle.get_ident:
        throttle.get_ident = address_of
    if issubclass(kind, SimpleRateThrottle):
        throttle.THROTTLE_RATES = {**throttle.THROTTLE_RATES, **conf.THROTTLE_RATES}
        throttle.cache_format = f"mcp_{throttle.cache_format}"
    throttle.__init__()
    return cast("BaseThrottle", throttle)


def _count(throttle: Any, about: tuple[object, ...], calls: int, seconds: int) -> bool:
    """Count a call by ``about`` and set ``_left``; return if it is within ``calls``."""
    cache, (window, passed) = throttle.cache, divmod(throttle.timer(), seconds)
    # Hashed: names and addresses may not be valid keys, and credentials are secret.
    digest = hashlib.sha256(repr((*about, seconds, int(window))).encode()).hexdigest()
    key = f"mcp_bridge.throttling:{digest}"
    # Longer than the window: incrementing a key as it expires makes one without expiry in Redis.
    timeout = 2 * seconds
    try:
        count = int(cache.incr(key))
    except ValueError:
        # The first of the window, unless another process added the key in the meantime.
        count = 1 if cache.add(key, 1, timeout=timeout) else int(cache.incr(key))
    else:
        if getattr(cache.incr, "__func__", None) is BaseCache.incr:
            # Database and file caches reset the timeout to their default on incr().
            cache.touch(key, timeout=timeout)
    throttle._left = seconds - passed
    return count <= calls


@dataclass
class CircuitBreaker:
    """The time until which a cache is skipped, and that of its last logged error."""

    until: float = -math.inf
    warned: float = -math.inf


# By id(), since cache proxies are not hashable; throttles without a cache attribute share one
# per class.
_breakers: defaultdict[int, CircuitBreaker] = defaultdict(CircuitBreaker)


def count_or_none(throttle: BaseThrottle, count: Callable[[], bool]) -> bool | None:
    """
    Return the result of ``count``, or None while the throttle's cache is unavailable.

    After an error the cache is skipped for PAUSE seconds, and then tried by a single request.
    Other exceptions of ``count`` are raised.
    """
    breaker = _breakers[id(getattr(throttle, "cache", type(throttle)))]
    now = time.monotonic()
    if now < breaker.until:
        return None
    if breaker.until > -math.inf:
        breaker.until = now + PAUSE
    try:
        # A site's class may return any value.
        allowed = bool(count())
    except Exception as exception:
        if not _is_of_cache(exception):
            raise
        now = time.monotonic()
        breaker.until = now + PAUSE
        if now - breaker.warned >= _SILENCE:
            breaker.warned = now
            logger.warning("Calls cannot be counted: the cache is unavailable", exc_info=True)
        return None
    breaker.until = -math.inf
    return allowed


def count_locally(throttle: BaseThrottle, count: Callable[[], bool]) -> bool:
    """Return the result of ``count`` with this process's memory as the throttle's cache."""
    # Without a cache attribute, count() would use the unavailable cache.
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
    """Return whether a cache method raised it; such exceptions lack a common class."""
    frames = (frame for frame, _ in walk_tb(exception.__traceback__))
    return any(isinstance(frame.f_locals.get("self"), BaseCache) for frame in frames)


@lru_cache(maxsize=4096)
def may_throttle(tool: Feature) -> bool:
    """Return whether calls of the tool have a rate or must be counted; cached per tool."""
    if tool.is_irreversible:
        return True
    kinds = map(imported, conf.THROTTLE_CLASSES)
    tools = [each for each in kinds if issubclass(each, ToolRateThrottle)]
    own = any(each.get_rate is not ToolRateThrottle.get_rate for each in tools)
    return own or any(each().get_rate(tool) is not None for each in tools)


setting_changed.connect(lambda **changed: may_throttle.cache_clear(), weak=False)


def throttled(tool: Feature, context: Context) -> CallToolResult | None:
    """Count a call of the tool; return the error result, or None if it may run."""
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
        text = f"The tool {tool.name} cannot be called right now: its calls cannot be counted."
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
    """Return the wait in whole seconds, at least 1, for HTTP and models."""
    return None if wait is None else max(1, math.ceil(wait))


def retry_advice(seconds: int | None) -> str:
    """Return a sentence about when to retry, to append to another one."""
    if seconds is None:
        return " Wait before retrying."
    return f" Retry after {seconds} second{'s' * (seconds > 1)}."
