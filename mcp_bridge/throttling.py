"""
How often a caller may call a tool, and what becomes of counting without the cache.

Throttles are DRF's. Those of the setting THROTTLE_CLASSES that are a ToolRateThrottle are asked for
each call of a tool, all others for each request (see ``mcp_bridge.auth``).
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections import ChainMap, defaultdict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from django.core.cache import cache as default_cache
from django.core.cache.backends.locmem import LocMemCache
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string
from rest_framework.exceptions import APIException
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle, SimpleRateThrottle

from mcp_bridge.conf import conf
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.rates import Rate, parse_rate
from mcp_bridge.tools import Context, Tool

logger = logging.getLogger("mcp_bridge.throttling")

# Where the seconds to wait stand in a refused call's _meta.
RETRY_KEY: Final = "mcp-bridge/retryAfter"
# The rate of tools without one of their own.
EVERY_TOOL: Final = "tools"
# Where a request says that a throttle let it pass uncounted; no header can have that name.
UNCOUNTED: Final = "mcp_bridge.uncounted"

# How long a cache that did not answer is not asked again, and nothing more is logged, in seconds.
PAUSE: Final = 1.0
_SILENCE: Final = 60.0


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
        return "address", self.get_address(context.request)

    def get_address(self, request: Any) -> str:
        """The caller's address; X-Forwarded-For counts where DRF's NUM_PROXIES is set."""
        if api_settings.NUM_PROXIES is None:
            return str(request.META.get("REMOTE_ADDR"))
        return str(self.get_ident(request))

    def allow_call(self, tool: Tool, context: Context) -> bool | None:
        """Count a call; whether it may run, or None where it could not be counted."""
        self.rate = rate = self.get_rate(tool)
        if rate is None:
            return True
        window, passed = divmod(self.timer(), rate.seconds)
        self._left = rate.seconds - passed
        # Hashed, since a name or an address may hold what no key may, and a credential is secret.
        about = repr((*self.get_caller(context), tool.name, rate.seconds, int(window)))
        key = f"mcp_bridge.throttling:{hashlib.sha256(about.encode()).hexdigest()}"

        def within() -> bool:
            return self._count(key, rate) <= rate.calls

        allowed = asked(self, within)
        if allowed is None and not is_closed(tool):
            return alone(self, within)
        return allowed

    def wait(self) -> float | None:
        """The seconds to the next window."""
        return self._left if self.rate else None

    def _count(self, key: str, rate: Rate) -> int:
        try:
            return int(self.cache.incr(key))
        except ValueError:
            # The first of the window. It is kept for longer than that, since Redis would make a
            # key without an end of one that ends while it is counted.
            if self.cache.add(key, 1, timeout=2 * rate.seconds):
                return 1
            return int(self.cache.incr(key))


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
    seconds = whole(wait)
    if seconds is None:
        return CallToolResult.error(text)
    text += f" Retry after {seconds} second{'s' * (seconds > 1)}."
    return CallToolResult.error(text, {RETRY_KEY: seconds})


def whole(wait: float | None) -> int | None:
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
    if not issubclass(found, SimpleRateThrottle):
        return found
    others = found.THROTTLE_RATES

    def rates(throttle: SimpleRateThrottle) -> Mapping[str, str | None]:
        return ChainMap(dict(conf.THROTTLE_RATES), others)

    changed = {"THROTTLE_RATES": property(rates), "cache_format": f"mcp_{found.cache_format}"}
    return type(found.__name__, (found,), {"__module__": found.__module__, **changed})


class _Outage:
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
_outages: defaultdict[int, _Outage] = defaultdict(_Outage)


def asked(throttle: BaseThrottle, ask: Callable[[], bool]) -> bool | None:
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


def alone(throttle: Any, ask: Callable[[], bool]) -> bool:
    """What ``ask`` says when this process counts by itself; a throttle that cannot is passed."""
    throttle.cache = LocMemCache("mcp_bridge.throttling", {"OPTIONS": {"MAX_ENTRIES": 10_000}})
    try:
        return bool(ask())
    except Exception:
        return True
