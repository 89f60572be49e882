"""Rates of tools: exact counts by caller, and the result over the limit."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.cache import cache, caches
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.throttling import UserRateThrottle

from mcp_bridge.access import policy, throttling
from mcp_bridge.access.policy import context_for
from mcp_bridge.access.throttling import ToolRateThrottle
from mcp_bridge.features.rates import parse_rate
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.records import repeats
from mcp_bridge.records.repeats import refusals
from mcp_bridge.signals import tool_call_refused
from mcp_bridge.testing import MCPClient, MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.support.serving import set_tool

DRF = "rest_framework.throttling"
CALLS: list[str] = []


class Clock:
    now = 1_000_000_020.0


class Timed(ToolRateThrottle):
    timer = staticmethod(lambda: Clock.now)


class TimedCredential(throttling.CredentialRateThrottle):
    timer = staticmethod(lambda: Clock.now)


class TimedTogether(Timed):
    """One count for each tool, of all callers together."""

    def get_caller(self, context: Any) -> tuple[str, str]:
        return "site", ""


class TimedHalf(Timed):
    """The same callers at another rate."""

    def get_rate(self, tool: Any) -> Any:
        return parse_rate("2/min")


class Hourly(Timed):
    """Another rate."""

    def get_rate(self, tool: Any) -> Any:
        return parse_rate("1/hour")


class Silent(Timed):
    """A throttle that does not know when to retry."""

    def wait(self) -> None:
        return None


class Mistaken(Timed):
    """A class with a programming error."""

    def get_caller(self, context: Any) -> tuple[str, str]:
        raise KeyError("SECRET-MARKER")


class Anonymous(BaseAuthentication):
    """An authentication class that returns a credential without a user."""

    def authenticate(self, request: Any) -> Any:
        from django.contrib.auth.models import AnonymousUser

        return AnonymousUser(), request.META["HTTP_X_KEY"]


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reset all counts, and set the clock to the start of a minute."""
    monkeypatch.setattr(Clock, "now", 1_000_000_020.0)
    monkeypatch.setattr(throttling, "_breakers", defaultdict(throttling.CircuitBreaker))
    cache.clear()
    throttling._local.clear()
    refusals.clear()
    CALLS.clear()
    yield
    cache.clear()


def write(text: str = "") -> str:
    """Write a text."""
    CALLS.append(text)
    return text


def read() -> str:
    """Read a text."""
    return "read"


@pytest.fixture
def limit(settings: Any) -> Callable[..., None]:
    """A function that serves write() and read() with these rates, or other settings."""

    def set_limit(rates: Any = None, *, throttle: str | None = None, **others: Any) -> None:
        options = {"public": others.pop("public", False), "throttle": throttle}
        settings.MCP_BRIDGE = {
            "THROTTLE_CLASSES": [f"{__name__}.Timed"],
            "THROTTLE_RATES": rates or {},
            **others,
        }
        serve(settings, write, read, **options)

    return set_limit


def allowed(client: MCPClient, tool: str = "write", most: int = 30) -> int:
    """Return how many calls run before one is refused."""
    for count in range(most):
        if client.call_tool(tool)["isError"]:
            return count
    return most


@pytest.mark.off_rest
@pytest.mark.requirement("tools.rate")
def test_rate_limited_model_is_told_when_to_retry(
    client: CheckedClient, limit: Callable[..., None]
) -> None:
    limit({"tools": "3/min"})
    Clock.now += 22.5
    assert allowed(client) == 3
    refused = client.call_tool("write", {"unknown": 1})
    assert text_of(refused) == (
        "Too many calls: write may be called 3 times a minute. Retry after 38 seconds."
    )
    assert refused["_meta"]["mcp-bridge/retryAfter"] == 38
    assert (client.response.status_code, len(CALLS)) == (200, 3)
    # Another tool is counted separately, and so is a new minute.
    assert allowed(client, "read") == 3
    Clock.now += 38
    assert allowed(client) == 3


@pytest.mark.parametrize(
    ("rates", "throttle", "owner", "expected"),
    [
        ({}, None, "", 30),
        ({"tools": "2/min"}, None, "", 2),
        ({"tools": "2/s"}, "3/min", "", 3),
        ({"tools": "2/hour", "often": "4/sec"}, "often", "", 4),
        ({"write": "5/day", "tools": "2/min"}, "3/min", "", 5),
        ({"write": None, "tools": "2/min"}, "3/min", "", 30),
        ({"write": "5/m", "tools": "2/min"}, "3/min", "6/h", 6),
    ],
)
def test_most_specific_rate_applies(
    rates: Any,
    throttle: str | None,
    owner: str,
    expected: int,
    modern: CheckedClient,
    limit: Callable[..., None],
) -> None:
    limit(rates, throttle=throttle)
    set_tool("write", rate=owner)
    assert allowed(modern) == expected


def test_each_user_is_counted_separately(user: Any, limit: Callable[..., None]) -> None:
    limit({"tools": "3/min"})
    secrets = [Token.objects.issue(user=user, name=name)[1] for name in "ab"]
    other = get_user_model().objects.create_user("eve")
    assert allowed(MCPClient(token=secrets[0])) == 3
    assert allowed(MCPClient(token=secrets[1])) == 0
    assert allowed(MCPClient(user=user)) == 0
    assert allowed(MCPClient(user=other)) == 3


def test_credential_rate_throttle_counts_each_credential(
    user: Any, limit: Callable[..., None]
) -> None:
    limit({"tools": "3/min"}, THROTTLE_CLASSES=[f"{__name__}.TimedCredential"])
    secrets = [Token.objects.issue(user=user, name=name)[1] for name in "ab"]
    assert [allowed(MCPClient(token=each)) for each in (*secrets, secrets[0])] == [3, 3, 0]
    assert allowed(MCPClient(user=user)) == 3


@pytest.mark.off_stdio
def test_anonymous_calls_are_counted_by_credential_or_address(
    limit: Callable[..., None], settings: Any
) -> None:
    limit({"tools": "3/min"}, public=True, AUTHENTICATION_CLASSES=[f"{__name__}.Anonymous"])
    for key in ("a", "b"):
        client = MCPClient()
        client.headers["X-Key"] = key
        assert allowed(client) == 3
    limit({"tools": "3/min"}, public=True)
    client = MCPClient()
    assert allowed(client) == 3
    # A header of the client does not change its address, but one of a proxy does.
    client.headers["X-Forwarded-For"] = "203.0.113.9"
    assert allowed(client) == 0
    settings.REST_FRAMEWORK = {"NUM_PROXIES": 1}
    assert allowed(client) == 3
    client.http.defaults["REMOTE_ADDR"] = "203.0.113.10"
    del client.headers["X-Forwarded-For"]
    assert allowed(client) == 3


# Addresses of one client, each list beside another client's.
NETWORKS = {
    "64": (["2001:db8:0:1::1", "2001:DB8:0:1:ffff:ffff:ffff:ffff"], "2001:db8:0:2::1"),
    "spelt out": (["2001:0db8:0000:0001::9", "2001:db8:0:1:0:0:1.2.3.4"], "2001:db8::1"),
    "mapped": (["198.51.100.7", "::ffff:198.51.100.7", "::FFFF:c633:6407"], "198.51.100.8"),
    "mapped alone": (["::ffff:198.51.100.7", "0:0:0:0:0:ffff:c633:6407"], "::ffff:198.51.100.8"),
    "link": (["fe80::1%eth0", "fe80::2%eth0"], "fe80:0:0:1::1%eth0"),
    "loopback": (["::1", "::2"], "127.0.0.1"),
    "with a port": (
        ["198.51.100.7:4001", "198.51.100.7:4002", "198.51.100.7"],
        "198.51.100.8:4001",
    ),
    "in brackets": (["[2001:db8::1]:80", "[2001:db8::2]", "2001:db8::3"], "[2001:db8:0:1::1]:80"),
    "no address": (["unix:", "unix:"], ""),
}


@pytest.mark.off_stdio
@pytest.mark.parametrize(("addresses", "other"), NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("forwarded", [False, True], ids=["direct", "proxy"])
def test_addresses_of_one_network_share_a_rate(
    addresses: list[str], other: str, forwarded: bool, limit: Callable[..., None], settings: Any
) -> None:
    limit({"tools": "5/hour"}, public=True)
    settings.REST_FRAMEWORK = {"NUM_PROXIES": 1 if forwarded else None}
    client = MCPClient()

    def calls_from(address: str) -> int:
        client.http.defaults["HTTP_X_FORWARDED_FOR" if forwarded else "REMOTE_ADDR"] = address
        return allowed(client)

    assert [calls_from(address) for address in addresses] == [5] + [0] * (len(addresses) - 1)
    assert calls_from(other) == 5


def test_calls_of_a_hidden_tool_are_not_counted(
    modern: CheckedClient, user: Any, limit: Callable[..., None]
) -> None:
    limit({"tools": "1/min"})
    set_tool("write", restricted=True)
    for name in ("write", "write", "nothing"):
        with pytest.raises(MCPError, match=f"Unknown tool: {name}"):
            modern.call_tool(name)
    set_tool("write", restricted=False)
    assert allowed(modern) == 1


def test_calls_with_refused_arguments_are_counted(
    modern: CheckedClient, limit: Callable[..., None]
) -> None:
    limit({"tools": "3/min"})
    texts = [text_of(modern.call_tool("write", {"text": 5})) for _ in range(4)]
    assert ["Too many calls" in text for text in texts] == [False, False, False, True]


def test_cache_flush_resets_counts(modern: CheckedClient, limit: Callable[..., None]) -> None:
    limit({"tools": "3/min"})
    assert allowed(modern) == 3
    cache.clear()
    assert allowed(modern) == 3


def test_two_throttle_classes_count_separately(user: Any, limit: Callable[..., None]) -> None:
    limit({"tools": "3/min"}, THROTTLE_CLASSES=[f"{__name__}.Timed", f"{__name__}.TimedTogether"])
    assert allowed(MCPClient(user=user)) == 3
    # The calls of one user use up the rate of the whole site.
    assert allowed(MCPClient(user=get_user_model().objects.create_user("eve"))) == 0
    cache.clear()
    limit({"tools": "3/min"}, THROTTLE_CLASSES=[f"{__name__}.Timed", f"{__name__}.TimedHalf"])
    assert allowed(MCPClient(user=user)) == 2


def test_longer_wait_of_two_classes_is_returned(user: Any, limit: Callable[..., None]) -> None:
    for names in (["Timed", "Hourly"], ["Hourly", "Timed"]):
        cache.clear()
        limit({"tools": "1/min"}, THROTTLE_CLASSES=[f"{__name__}.{name}" for name in names])
        client = MCPClient(user=user)
        assert allowed(client) == 1
        assert "may be called 1 time an hour" in text_of(client.call_tool("write"))


def test_throttle_without_wait_returns_only_the_rate(
    modern: CheckedClient, limit: Callable[..., None]
) -> None:
    limit({"tools": "2/min"}, THROTTLE_CLASSES=[f"{__name__}.Silent"])
    assert allowed(modern) == 2
    refused = modern.call_tool("write")
    assert text_of(refused) == "Too many calls: write may be called 2 times a minute."
    assert throttling.RETRY_KEY not in refused.get("_meta", {})


@pytest.mark.off_rest
@pytest.mark.parametrize("rule", ["open", "closed"])
def test_error_in_a_throttle_class_refuses_the_call(
    rule: str, modern: CheckedClient, limit: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    limit(
        {"tools": "3/min"},
        THROTTLE_CLASSES=[f"{__name__}.Mistaken"],
        THROTTLE_WITHOUT_CACHE=rule,
    )
    with pytest.raises(MCPError, match="-32603") as raised:
        modern.call_tool("write")
    assert "SECRET-MARKER" not in str(raised.value)
    assert "SECRET-MARKER" in caplog.text
    assert CALLS == []


def flood(client: MCPClient, tool: str = "write", times: int = 6) -> int:
    """Return how many rows of refusals so many calls write."""
    before = ToolCallRecord.objects.filter(error_code="throttled").count()
    for _ in range(times):
        client.call_tool(tool)
    return ToolCallRecord.objects.filter(error_code="throttled").count() - before


def test_refusals_of_a_minute_are_one_row(
    user: Any, limit: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit({"tools": "2/min"})
    client, other = MCPClient(user=user), MCPClient(user=get_user_model().objects.create_user("e"))

    signals: list[str] = []

    def receive(error_code: str, **sent: Any) -> None:
        signals.append(error_code)

    tool_call_refused.connect(receive)
    assert flood(client) == 1
    assert flood(client) == 0
    tool_call_refused.disconnect(receive)
    # The signal is sent for each.
    assert signals == ["throttled"] * 10
    assert ToolCallRecord.objects.get(outcome="refused").times == 10
    # Another tool, caller or minute has a separate row.
    assert flood(client, "read") == 1
    assert flood(other) == 1
    later = repeats.monotonic() + 60
    monkeypatch.setattr(repeats, "monotonic", lambda: later)
    assert flood(client) == 1


def in_threads(ask: Callable[[], bool | None]) -> list[bool | None]:
    """Return the answers to 8 threads that ask 40 times each."""
    answers: list[bool | None] = []

    def work() -> None:
        for _ in range(40):
            answers.append(ask())
        caches.close_all()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_concurrent_threads_are_counted_exactly(limit: Callable[..., None]) -> None:
    limit({"tools": "100/min"})
    from mcp_bridge.features import Context
    from mcp_bridge.registry.registry import registry

    tool = registry.discovered.tools.get("write")
    assert tool is not None
    user = type("User", (), {"is_authenticated": True, "pk": 1})()
    context = Context(user=user, request=None, revision=None)  # type: ignore[arg-type]
    counted = in_threads(lambda: Timed().allow_call(tool, context))
    assert (counted.count(True), counted.count(False)) == (100, 220)


@pytest.mark.off_rest
def test_missing_rate_refuses_the_call(modern: CheckedClient, limit: Callable[..., None]) -> None:
    limit(throttle="seldom")
    with pytest.raises(MCPError, match="-32603"):
        modern.call_tool("write")
    assert CALLS == []


def test_caller_key_is_user_credential_or_address(user: Any) -> None:
    request = HttpRequest()
    request.META["REMOTE_ADDR"] = "192.0.2.1"

    def caller(user: Any, auth: Any = None, kind: Any = ToolRateThrottle) -> tuple[str, str]:
        return kind().get_caller(replace(context_for(user), request=request, auth=auth))

    assert caller(user) == caller(user, "key") == ("user", str(user.pk))
    assert caller(AnonymousUser()) == ("address", "192.0.2.1")
    of_key, by_key = (
        caller(each, "key", kind)
        for each, kind in (
            (AnonymousUser(), ToolRateThrottle),
            (user, throttling.CredentialRateThrottle),
        )
    )
    assert of_key == by_key
    assert (of_key[0], "key" in of_key[1]) == ("credential", False)
    assert caller(AnonymousUser(), "another") != of_key
    assert caller(user, None, throttling.CredentialRateThrottle) == ("user", str(user.pk))
    assert ToolRateThrottle().get_ident(None) == "None"


def test_drf_throttles_get_separate_cache_keys(settings: Any) -> None:
    settings.MCP_BRIDGE = {"THROTTLE_RATES": {"user": "2/min"}}
    made: Any = throttling.make_throttle(UserRateThrottle)
    assert made.cache_format == "mcp_throttle_%(scope)s_%(ident)s"
    assert (made.num_requests, made.duration) == (2, 60)


def test_credential_identity_is_the_same_in_every_request() -> None:
    nameless = type("Key", (), {})
    identify = policy.identify
    # Both at once, so that their addresses differ.
    first, second = nameless(), nameless()
    assert identify(first) == identify(second) != identify(type("Other", (), {})())
    assert identify(Token(pk=5)) == identify(Token(pk=5)) != identify(Token(pk=6))
    assert identify("secret") == identify("secret") != identify("other")
    # A key may be the credential itself.
    assert "secret" not in identify("secret") + identify(type("Key", (), {"pk": "secret"})())
