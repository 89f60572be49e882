"""Throttling without the cache: refused or counted in the process, without delay, logged once."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.locmem import LocMemCache
from rest_framework.throttling import BaseThrottle

from mcp_bridge.access import throttling
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.records.repeats import refusals
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.contract.test_throttling import DRF, allowed, write

# A separate Redis that is stopped: "make services" runs it.
STRESS = "STRESS" in os.environ
TIMEOUT = 0.3
TOOLS = "mcp_bridge.access.throttling.ToolRateThrottle"


class SocketCache(BaseCache):
    """A cache at the other end of a unix socket, with a timeout of 0.3 s."""

    asked = 0

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        self.location = location

    def incr(self, *args: Any, **kwargs: Any) -> int:
        SocketCache.asked += 1
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT)
            connection.connect(self.location)
            return int(connection.recv(10))

    get = incr  # type: ignore[assignment]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a directory for the socket of a cache; errors of other caches are forgotten."""
    monkeypatch.setattr(throttling, "_breakers", defaultdict(throttling.CircuitBreaker))
    monkeypatch.setattr(SocketCache, "asked", 0)
    throttling._local.clear()
    refusals.clear()
    # Paths of sockets are short.
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def down(settings: Any, place: Path) -> None:
    """Use a cache whose socket does not exist."""
    settings.CACHES = {"default": {"BACKEND": f"{__name__}.SocketCache", "LOCATION": "socket"}}


@pytest.fixture
def hung(down: None) -> Iterator[None]:
    """Run a cache that accepts connections and never answers."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        listening.listen(50)
        yield


@pytest.fixture
def limit(settings: Any) -> Callable[..., None]:
    """Serve write() with these settings and marks."""

    def set_limit(rule: str, *classes: str, rates: Any = None, **options: Any) -> None:
        settings.MCP_BRIDGE = {
            "THROTTLE_CLASSES": classes or [TOOLS],
            "THROTTLE_RATES": {"tools": "3/day"} if rates is None else rates,
            "THROTTLE_WITHOUT_CACHE": rule,
        }
        serve(settings, write, **options)

    return set_limit


@pytest.mark.usefixtures("down")
@pytest.mark.parametrize(
    ("rule", "mark", "runs"),
    [
        ("open", {}, 3),
        ("closed", {}, 0),
        ("open", {"destructive": True}, 0),
        ("closed", {"read_only": True}, 0),
    ],
)
def test_without_the_cache_the_rule_holds(
    rule: str, mark: Any, runs: int, modern: CheckedClient, limit: Callable[..., None]
) -> None:
    limit(rule, **mark)
    assert allowed(modern) == runs
    refused = text_of(modern.call_tool("write"))
    if runs:
        assert "may be called 3 times a day" in refused
    else:
        assert refused == (
            "The tool write cannot be called right now: its calls cannot be counted. "
            "Retry after 1 second."
        )
    assert SocketCache.asked == 1


@pytest.mark.usefixtures("down")
def test_one_row_records_all_uncounted_calls(
    modern: CheckedClient, limit: Callable[..., None]
) -> None:
    limit("closed")
    for _ in range(3):
        assert modern.call_tool("write")["isError"]
    assert ToolCallRecord.objects.get().error_code == "throttled"


@pytest.mark.usefixtures("down")
def test_endpoint_without_cache_is_open_or_unavailable(
    modern: CheckedClient, limit: Callable[..., None]
) -> None:
    classes = (f"{DRF}.UserRateThrottle", TOOLS)
    limit("closed", *classes, rates={"user": "2/day"})
    with pytest.raises(MCPError) as raised:
        modern.list_tools()
    unavailable = "The server cannot count requests right now: try again later."
    assert raised.value.error["message"] == unavailable
    assert (modern.response.status_code, modern.response["Retry-After"]) == (503, "1")
    # Uncounted, a request may not destroy, though the tool itself is without a rate.
    limit("open", *classes, rates={"user": "2/day"}, destructive=True)
    assert "cannot be counted" in text_of(modern.call_tool("write"))
    modern.list_tools()
    with pytest.raises(MCPError, match="Too many requests"):
        modern.list_tools()


class Failing(BaseThrottle):
    """A throttle without an attribute for its cache, which is unavailable."""

    def allow_request(self, request: Any, view: Any) -> bool:
        return bool(cache.incr("requests"))


class Nesting(BaseThrottle):
    """A throttle that sends a request while it counts one."""

    client: CheckedClient
    asked = 0

    def allow_request(self, request: Any, view: Any) -> bool:
        Nesting.asked += 1
        if Nesting.asked == 1:
            self.client.list_tools()
        return True


@pytest.mark.usefixtures("down")
def test_failing_throttle_does_not_stop_others_from_counting(
    modern: CheckedClient,
    limit: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(Nesting, "client", modern, raising=False)
    monkeypatch.setattr(Nesting, "asked", 0)
    limit("open", *(f"{__name__}.{each.__name__}" for each in (Failing, Nesting)), rates={})
    assert modern.list_tools()
    # Also the nested one.
    assert Nesting.asked == 2
    (record,) = [each for each in caplog.records if each.name == "mcp_bridge.throttling"]
    assert record.getMessage() == "Calls cannot be counted: the cache is unavailable"
    assert record.exc_info
    assert isinstance(record.exc_info[1], OSError)


class Silent(throttling.ToolRateThrottle):
    """A throttle that refuses, without a time to retry."""

    def allow_call(self, tool: Any, context: Any) -> bool:
        return False


class Brief(Silent):
    """A throttle that refuses for half a second."""

    def wait(self) -> float:
        return 0.5


@pytest.mark.parametrize("names", [("Silent", "Brief"), ("Brief", "Silent")])
def test_longest_known_wait_is_named(
    names: tuple[str, str], modern: CheckedClient, limit: Callable[..., None]
) -> None:
    limit("open", *(f"{__name__}.{name}" for name in names))
    refused = text_of(modern.call_tool("write"))
    assert refused == "Too many calls: write. Retry after 1 second."


@pytest.mark.alone
@pytest.mark.usefixtures("hung")
def test_hanging_cache_delays_one_call_and_is_logged_once(
    modern: CheckedClient, limit: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    limit("open", f"{DRF}.UserRateThrottle", TOOLS, rates={"user": "99/day", "tools": "99/day"})
    with caplog.at_level(logging.WARNING, "mcp_bridge.throttling"):
        assert allowed(modern, most=5) == 5
        # Each query waits for the cache's own timeout, once in a pause.
        assert SocketCache.asked <= 2
        time.sleep(throttling.PAUSE)
        assert allowed(modern, most=3) == 3
        assert 2 <= SocketCache.asked <= 4
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == "Calls cannot be counted: the cache is unavailable"
    assert record.exc_info


@pytest.mark.alone
@pytest.mark.usefixtures("place")
def test_only_one_request_waits_for_a_recovering_cache() -> None:
    throttle = throttling.ToolRateThrottle()
    throttle.cache = SocketCache("socket", {})
    found: list[bool | None] = []

    def ask() -> bool:
        found.append(throttling.count_or_none(throttle, lambda: True))
        return True

    assert throttling.count_or_none(throttle, lambda: throttle.cache.incr("key") > 0) is None
    assert throttling.count_or_none(throttle, ask) is None
    time.sleep(throttling.PAUSE)
    assert throttling.count_or_none(throttle, ask) is True
    assert throttling.count_or_none(throttle, ask) is True
    assert found == [None, True]


@contextmanager
def redis(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Redis on a socket in that directory."""
    command = ["redis-server", "--port", "0", "--unixsocket", "redis", "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=place) as server:
        try:
            while not (place / "redis").exists():
                time.sleep(0.01)
            yield server
        finally:
            server.kill()


@pytest.mark.skipif(not STRESS, reason="make services runs it")
def test_redis_that_stops_continues_and_dies_is_survived(
    modern: CheckedClient, settings: Any, place: Path, limit: Callable[..., None]
) -> None:
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": f"unix://{place}/redis",
            "OPTIONS": {"socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT},
        }
    }
    limit("open", rates={"tools": "40/day"})
    with redis(place) as server:
        assert allowed(modern, most=50) == 40
        cache.clear()
        assert allowed(modern, most=20) == 20
        server.send_signal(signal.SIGSTOP)
        assert allowed(modern, most=10) == 10
        server.send_signal(signal.SIGCONT)
        time.sleep(throttling.PAUSE)
        # Its count before it was stopped, and the calls that reached it afterwards.
        assert allowed(modern, most=50) <= 20
    throttling._local.clear()
    refusals.clear()
    assert allowed(modern, most=1) == 1


@pytest.mark.parametrize("calls", [1, 2])
def test_count_expires_after_its_window(
    calls: int, modern: CheckedClient, settings: Any, place: Path
) -> None:
    files = {"BACKEND": "django.core.cache.backends.filebased.FileBasedCache", "TIMEOUT": 60}
    settings.CACHES = {"default": {**files, "LOCATION": str(place)}}
    settings.MCP_BRIDGE = {"THROTTLE_RATES": {"tools": "2/day"}}
    serve(settings, write)
    assert allowed(modern, most=calls) == calls
    (file,) = place.glob("*.djcache")
    with file.open("rb") as stored:
        left = pickle.load(stored) - time.time()
    assert 24 * 3600 < left <= 48 * 3600


class RacedCache(LocMemCache):
    """A cache in which another process adds each key first, with a count of 2."""

    def add(self, key: str, value: Any, *args: Any, **kwargs: Any) -> bool:
        super().add(key, 2, *args, **kwargs)
        return False


@pytest.mark.usefixtures("place")
def test_count_of_another_process_is_continued(modern: CheckedClient, settings: Any) -> None:
    settings.CACHES = {"default": {"BACKEND": f"{__name__}.RacedCache", "LOCATION": "raced"}}
    settings.MCP_BRIDGE = {"THROTTLE_RATES": {"tools": "3/day"}}
    serve(settings, write)
    assert [modern.call_tool("write")["isError"] for _ in range(2)] == [False, True]
