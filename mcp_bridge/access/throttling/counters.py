"""Fixed-window counters on Django's cache (atomic incr), with a circuit breaker for outages."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from traceback import walk_tb
from typing import Final

from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.locmem import LocMemCache
from rest_framework.throttling import BaseThrottle

logger = logging.getLogger("mcp_bridge.throttling")

# After an error of a cache, in seconds: how long it is not asked, and how long nothing is logged.
PAUSE: Final = 1.0
_SILENCE: Final = 60.0

# The counts of this process while the cache does not answer, and its latest refusals.
_local: Final = LocMemCache("mcp_bridge.throttling", {"OPTIONS": {"MAX_ENTRIES": 10_000}})


def increment(
    cache: BaseCache, about: tuple[object, ...], seconds: int, now: float
) -> tuple[int, float]:
    """
    Add one to a count; return the new count, and the seconds that are left of its window.

    ``about`` identifies the count, ``seconds`` is the length of its windows, and ``now`` a time in
    seconds since the epoch, whose window it is. Raises what the cache raises.
    """
    window, passed = divmod(now, seconds)
    key, left = _key(*about, seconds, int(window)), seconds - passed
    # Kept for longer than the window, since Redis would make a key without an end of one that ends
    # while it is counted.
    timeout = 2 * seconds
    try:
        count = int(cache.incr(key))
    except ValueError:
        # The first of the window, unless another process has added it in between.
        if cache.add(key, 1, timeout=timeout):
            return 1, left
        return int(cache.incr(key)), left
    if getattr(cache.incr, "__func__", None) is BaseCache.incr:
        # Those of the database and of files write it back for their default TIMEOUT.
        cache.touch(key, timeout=timeout)
    return count, left


def _key(*about: object) -> str:
    """Hash, since a name or an address may hold what no key may, and a credential is secret."""
    return f"mcp_bridge.throttling:{hashlib.sha256(repr(about).encode()).hexdigest()}"


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

    After an error it is not asked for PAUSE seconds, and then by one request for all. Raises what
    ``count`` raises, but for exceptions of a cache.
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
    """
    Return what ``count`` returns when the throttle's cache is the memory of this process.

    A throttle that names no cache is not asked: it would wait for the one that does not answer.
    """
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
    """
    Return whether the exception left a method of a cache.

    What caches raise has no class in common, and a throttle may use one that it does not name.
    """
    frames = (frame for frame, _ in walk_tb(exception.__traceback__))
    return any(isinstance(frame.f_locals.get("self"), BaseCache) for frame in frames)


def is_repeated(refusing: Iterable[BaseThrottle], caller: tuple[str, ...]) -> bool:
    """
    Return whether the caller was refused before in the same window, which needs no new record.

    Throttles that count exactly know it; where none does, this process remembers its refusal of
    ``caller`` for a minute.
    """
    known = {getattr(each, "repeated", None) for each in refusing} - {None}
    if known:
        return all(known)
    return not _local.add(_key("refusal", *caller), True, timeout=60)
