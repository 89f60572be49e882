"""
Counts in a cache, exact however many threads and processes count, and what becomes of them without.

A count is of a fixed window of time: the cache adds to it in one step, where to read it and write
it again would lose what others add meanwhile.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.locmem import LocMemCache
from django.core.exceptions import ImproperlyConfigured
from rest_framework.exceptions import APIException
from rest_framework.throttling import BaseThrottle

logger = logging.getLogger("mcp_bridge.throttling")

# How long a cache that did not answer is not asked again, and nothing more is logged, in seconds.
PAUSE: Final = 1.0
_SILENCE: Final = 60.0


def increment(cache: Any, about: str, seconds: int, now: float) -> tuple[int, float]:
    """
    How many there have been, with this one, in the window of ``now``; and how long it still lasts.

    ``about`` says of what the count is; ``seconds`` is how long a window is.
    """
    window, passed = divmod(now, seconds)
    # Hashed, since a name or an address may hold what no key may, and a credential is secret.
    about = repr((about, seconds, int(window)))
    key = f"mcp_bridge.throttling:{hashlib.sha256(about.encode()).hexdigest()}"
    return _incremented(cache, key, seconds), seconds - passed


def _incremented(cache: Any, key: str, seconds: int) -> int:
    try:
        count = int(cache.incr(key))
        if getattr(cache.incr, "__func__", None) is BaseCache.incr:
            # Those of the database and of files write it back for their default TIMEOUT.
            cache.touch(key, timeout=2 * seconds)
        return count
    except ValueError:
        # The first of the window. It is kept for longer than that, since Redis would make a key
        # without an end of one that ends while it is counted.
        if cache.add(key, 1, timeout=2 * seconds):
            return 1
        return int(cache.incr(key))


class CircuitBreaker:
    """What this process knows of a cache that does not answer."""

    def __init__(self) -> None:
        self._until: float | None = None
        self._warned = -math.inf

    def lets_ask(self) -> bool:
        """Whether to ask the cache: not for a while after it failed, and then one for all."""
        now = time.monotonic()
        if self._until is None:
            return True
        if now < self._until:
            return False
        self._until = now + PAUSE
        return True

    def begin(self) -> None:
        now = time.monotonic()
        self._until = now + PAUSE
        if now - self._warned >= _SILENCE:
            self._warned = now
            logger.warning("Calls cannot be counted: the cache does not answer", exc_info=True)

    def end(self) -> None:
        self._until = None


# By the cache's identity: proxies of caches cannot be hashed.
_outages: defaultdict[int, CircuitBreaker] = defaultdict(CircuitBreaker)


def count_or_none(throttle: BaseThrottle, ask: Callable[[], bool]) -> bool | None:
    """What ``ask`` says, which counts with the throttle; None where the cache does not answer."""
    outage = _outages[id(getattr(throttle, "cache", None))]
    if not outage.lets_ask():
        return None
    try:
        allowed = bool(ask())
    except ImproperlyConfigured:
        raise
    except APIException:
        allowed = False
    except Exception:
        # What a cache raises that is down has no class in common.
        outage.begin()
        return None
    outage.end()
    return allowed


def count_locally(throttle: Any, ask: Callable[[], bool]) -> bool:
    """What ``ask`` says when this process counts by itself; a throttle that cannot is passed."""
    throttle.cache = LocMemCache("mcp_bridge.throttling", {"OPTIONS": {"MAX_ENTRIES": 10_000}})
    try:
        return bool(ask())
    except Exception:
        return True
