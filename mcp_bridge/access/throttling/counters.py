"""Fixed-window counters on Django's cache (atomic incr), with a circuit breaker for outages."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from traceback import walk_tb
from typing import Final

from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.locmem import LocMemCache
from rest_framework.throttling import BaseThrottle

logger = logging.getLogger("mcp_bridge.throttling")

# After an error of a cache, in seconds: how long it is not asked, and how long nothing is logged.
PAUSE: Final = 1.0
_SILENCE: Final = 60.0
# For how long a refusal counts as the caller's last one where nobody knows when to retry.
_MINUTE: Final = 60

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


class CircuitBreaker:
    """Keeps the requests of this process from waiting for a cache that does not answer."""

    def __init__(self) -> None:
        self._until: float | None = None
        self._warned = -math.inf

    def allows(self) -> bool:
        """Return whether to ask the cache: after an error one request a second asks for all."""
        now = time.monotonic()
        if self._until is None:
            return True
        if now < self._until:
            return False
        self._until = now + PAUSE
        return True

    def trip(self) -> None:
        """Stop asking the cache for PAUSE seconds, and log the exception being handled."""
        now = time.monotonic()
        self._until = now + PAUSE
        if now - self._warned >= _SILENCE:
            self._warned = now
            logger.warning("Calls cannot be counted: the cache does not answer", exc_info=True)

    def reset(self) -> None:
        """Ask the cache again for every request."""
        self._until = None


# By the cache's identity, since proxies of caches cannot be hashed; a throttle that names no cache
# has one for its class.
_breakers: defaultdict[int, CircuitBreaker] = defaultdict(CircuitBreaker)


def count_or_none(throttle: BaseThrottle, count: Callable[[], bool]) -> bool | None:
    """
    Return what ``count`` returns, or None while the throttle's cache does not answer.

    Raises what ``count`` raises, but for exceptions of a cache.
    """
    breaker = _breakers[id(getattr(throttle, "cache", type(throttle)))]
    if not breaker.allows():
        return None
    try:
        # A class of the site's own may return a value of any kind.
        allowed = bool(count())
    except Exception as exception:
        if not _is_of_cache(exception):
            raise
        breaker.trip()
        return None
    breaker.reset()
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


def is_repeated(
    refusing: Iterable[BaseThrottle], caller: tuple[str, ...], wait: int | None
) -> bool:
    """
    Return whether the caller was refused before in the same window, which needs no new record.

    Throttles that count exactly know it; for others this process remembers its refusals of
    ``caller`` for the ``wait``, in seconds, or for a minute.
    """
    known = [each.repeated for each in refusing if hasattr(each, "repeated")]
    if known:
        return all(known)
    return not _local.add(_key("refusal", *caller), True, timeout=wait or _MINUTE)
