"""Rates of requests, by any DRF throttle class."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.core.cache.backends.base import BaseCache
from django.core.exceptions import ImproperlyConfigured
from rest_framework.exceptions import Throttled
from rest_framework.throttling import (
    BaseThrottle,
    ScopedRateThrottle,
    SimpleRateThrottle,
    UserRateThrottle,
)

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.signals import tool_call_refused
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.contract import test_throttling as tools
from tests.contract.test_throttling import CALLS, DRF, write

anew, limit = tools.anew, tools.limit


class Refusing(BaseThrottle):
    """A throttle that refuses all, without a time to retry."""

    def allow_request(self, request: Any, view: Any) -> bool:
        CALLS.append(f"{request.user} {request.auth} {view.request.path}")
        return False


@pytest.fixture(autouse=True)
def one_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop DRF's clock, so that no minute ends during a test."""
    monkeypatch.setattr(SimpleRateThrottle, "timer", lambda throttle: 1_000_000_020.0)


class Raising(BaseThrottle):
    """A throttle that raises an exception instead of answering."""

    def allow_request(self, request: Any, view: Any) -> bool:
        raise RAISED[-1]


RAISED: list[Exception] = []


@pytest.mark.parametrize("asynchronous", [False, True])
def test_endpoint_answers_429(
    client: CheckedClient, limit: Callable[..., None], settings: Any, asynchronous: bool
) -> None:
    limit({"user": "2/min"}, THROTTLE_CLASSES=[f"{DRF}.UserRateThrottle"])
    serve(settings, write, asynchronous=asynchronous)
    for _ in range(2):
        client.list_tools()
    with pytest.raises(MCPError, match="Too many requests") as refused:
        client.list_tools()
    assert (refused.value.error["code"], client.response.status_code) == (429, 429)
    assert 1 <= int(client.response["Retry-After"]) <= 60
    # Other callers' limits are untouched, and no body is read.
    assert len(MCPClient(user=get_user_model().objects.create_user("eve")).list_tools()) == 1
    assert client.send(b"no JSON").status_code == 429


def test_wrong_token_is_counted_by_address(limit: Callable[..., None], user: Any) -> None:
    limit({"anon": "2/min"}, THROTTLE_CLASSES=[f"{DRF}.AnonRateThrottle"])
    wrong = MCPClient(token="mcp_wrong")
    # A session of the browser is not a credential here.
    wrong.http.force_login(user)
    statuses = []
    for _ in range(3):
        with pytest.raises(MCPError):
            wrong.list_tools()
        statuses.append(wrong.response.status_code)
    assert statuses == [401, 401, 429]
    assert MCPClient(user=user).list_tools()


def test_site_class_gets_the_request_and_the_view(
    modern: CheckedClient, limit: Callable[..., None]
) -> None:
    limit(THROTTLE_CLASSES=[f"{__name__}.Refusing", f"{__name__}.Refusing"])
    with pytest.raises(MCPError, match=r"Too many requests\. Wait before retrying\."):
        modern.list_tools()
    assert "Retry-After" not in modern.response
    assert CALLS == ["ada None /mcp"] * 2
    CALLS.clear()
    token, secret = Token.objects.issue(user=get_user_model().objects.get(), name="test")
    for client in (MCPClient(token=secret), MCPClient()):
        with pytest.raises(MCPError):
            client.list_tools()
    assert [f"ada {token} /mcp"] * 2 + ["AnonymousUser None /mcp"] * 2 == CALLS
    assert modern.http.get("/mcp/tools/list").status_code == 429


class Waiting(Refusing):
    """A throttle that refuses all for a time."""

    seconds = 0.2

    def wait(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("seconds", "advice"),
    [(0.2, "Retry after 1 second."), (1.1, "Retry after 2 seconds.")],
)
def test_wait_is_rounded_up_to_seconds(
    seconds: float,
    advice: str,
    modern: CheckedClient,
    limit: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Waiting, "seconds", seconds)
    limit(THROTTLE_CLASSES=[f"{__name__}.Waiting"])
    with pytest.raises(MCPError) as refused:
        modern.list_tools()
    assert refused.value.error["message"] == f"Too many requests. {advice}"


@pytest.mark.parametrize(
    ("raised", "rule", "status", "code"),
    [
        (Throttled(), "open", 429, 429),
        (Throttled(wait=7), "closed", 429, 429),
        (RuntimeError("SECRET-MARKER"), "closed", 200, -32603),
        (RuntimeError("SECRET-MARKER"), "open", 200, -32603),
        (ConnectionError("SECRET-MARKER"), "open", 200, -32603),
        (ImproperlyConfigured("SECRET-MARKER"), "open", 200, -32603),
    ],
)
def test_class_that_raises_admits_no_request(
    raised: Exception,
    rule: str,
    status: int,
    code: int | None,
    modern: CheckedClient,
    limit: Callable[..., None],
) -> None:
    limit(THROTTLE_CLASSES=[f"{__name__}.Raising"], THROTTLE_WITHOUT_CACHE=rule)
    RAISED.append(raised)
    message = modern.message("tools/list")
    answer = modern.send(json.dumps(message).encode(), modern.mirrored(message)).json()
    assert modern.response.status_code == status
    assert answer["error"]["code"] == code
    assert "SECRET-MARKER" not in str(answer)
    assert (modern.response.get("Retry-After") == "7") == (getattr(raised, "wait", None) == 7)


class DownCache(BaseCache):
    """A cache that does not answer, and raises any exception of its library."""

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)

    def get(self, *args: Any, **kwargs: Any) -> Any:
        raise UNANSWERED[-1]

    add = incr = set = get


UNANSWERED: list[Exception] = []


class WithGlobalCache(BaseThrottle):
    """A class that uses Django's cache without naming it."""

    def allow_request(self, request: Any, view: Any) -> bool:
        return bool(cache.add("mine", 1))


class WithBoth(UserRateThrottle):
    """A class of DRF's kind that reads Django's cache beside its own."""

    def get_cache_key(self, request: Any, view: Any) -> Any:
        cache.get("mine")
        return super().get_cache_key(request, view)


@pytest.mark.parametrize(
    "path", [f"{DRF}.UserRateThrottle", "Counting", "Own", "WithGlobalCache", "WithBoth"]
)
@pytest.mark.parametrize(
    "raised", [OSError, KeyError, TypeError, type("MemcacheError", (Exception,), {})]
)
def test_unavailable_cache_may_raise_any_exception(
    path: str,
    raised: type[Exception],
    modern: CheckedClient,
    limit: Callable[..., None],
    settings: Any,
) -> None:
    settings.CACHES = {"default": {"BACKEND": f"{__name__}.DownCache"}}
    UNANSWERED.append(raised("SECRET-MARKER"))
    path = path if "." in path else f"{__name__}.{path}"
    limit({"user": "3/day"}, THROTTLE_CLASSES=[path])
    assert modern.list_tools()
    limit({"user": "3/day"}, THROTTLE_CLASSES=[path], THROTTLE_WITHOUT_CACHE="closed")
    with pytest.raises(MCPError, match="cannot count requests right now"):
        modern.list_tools()
    assert (modern.response.status_code, modern.response["Retry-After"]) == (503, "1")


class Mistaken(UserRateThrottle):
    """A class of DRF's kind with a programming error."""

    rate = "5/day"

    def get_cache_key(self, request: Any, view: Any) -> str:
        return {"user": "key"}[request.user.pk]


class MistakenOwn(Mistaken):
    """A class that counts without DRF, and uses the cache before it fails."""

    def get_cache_key(self, request: Any, view: Any) -> str:
        return "mistaken"

    def throttle_success(self) -> bool:
        super().throttle_success()
        return self.history / 2


@pytest.mark.parametrize("kind", ["Mistaken", "MistakenOwn"])
@pytest.mark.parametrize("rule", ["open", "closed"])
def test_error_of_the_class_admits_no_request(
    kind: str,
    rule: str,
    modern: CheckedClient,
    limit: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    limit(THROTTLE_CLASSES=[f"{__name__}.{kind}"], THROTTLE_WITHOUT_CACHE=rule)
    for _ in range(2):
        with pytest.raises(MCPError, match="-32603"):
            modern.call_tool("write")
    assert CALLS == []
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 2


def test_error_of_the_class_admits_no_request_without_cache(
    modern: CheckedClient, limit: Callable[..., None], settings: Any
) -> None:
    settings.CACHES = {"default": {"BACKEND": f"{__name__}.DownCache"}}
    UNANSWERED.append(ConnectionError("SECRET-MARKER"))
    limit(THROTTLE_CLASSES=[f"{__name__}.MistakenOwn"])
    for _ in range(2):
        with pytest.raises(MCPError, match="-32603"):
            modern.call_tool("write")
    assert CALLS == []


@pytest.mark.parametrize("rates", [{}, {"user": None}])
def test_class_without_a_rate_refuses_nothing(
    rates: Any, modern: CheckedClient, limit: Callable[..., None]
) -> None:
    limit(rates, THROTTLE_CLASSES=[f"{DRF}.UserRateThrottle"])
    assert refused_after(modern) == 9


def refused_after(client: MCPClient, most: int = 9) -> int:
    """Return how many requests are answered before one is refused for their number."""
    for count in range(most):
        try:
            client.list_tools()
        except MCPError:
            if client.response.status_code == 429:
                return count
    return most


class Thrice(BaseThrottle):
    """A class that admits each address for three requests."""

    def allow_request(self, request: Any, view: Any) -> bool:
        CALLS.append(self.get_ident(request))
        return CALLS.count(CALLS[-1]) <= 3


@pytest.mark.parametrize(
    "kind", [f"{DRF}.AnonRateThrottle", f"{DRF}.UserRateThrottle", f"{__name__}.Thrice"]
)
def test_headers_do_not_change_the_address(
    kind: str, limit: Callable[..., None], settings: Any
) -> None:
    limit({"anon": "3/day", "user": "3/day"}, public=True, THROTTLE_CLASSES=[kind])
    client = MCPClient()
    forwarded = ("203.0.113.1", "203.0.113.2, 127.0.0.1", "", "::1", "127.0.0.1\t,x")
    for number, address in enumerate(forwarded):
        client.headers["X-Forwarded-For"] = address
        assert refused_after(client) == (0 if number else 3)
    # If the site has set the number of proxies, the address is the one that they report.
    settings.REST_FRAMEWORK = {"NUM_PROXIES": 1}
    for address in ("203.0.113.1", "made up, 203.0.113.2"):
        client.headers["X-Forwarded-For"] = address
        assert refused_after(client) == 3
    client.headers["X-Forwarded-For"] = "another, 203.0.113.1"
    assert refused_after(client) == 0
    client.http.defaults["REMOTE_ADDR"] = "198.51.100.7"
    assert refused_after(client) == 0


@pytest.mark.parametrize(("addresses", "other"), tools.NETWORKS.values(), ids=tools.NETWORKS)
def test_requests_of_one_network_share_a_rate(
    addresses: list[str], other: str, limit: Callable[..., None], settings: Any
) -> None:
    limit({"anon": "3/min"}, THROTTLE_CLASSES=[f"{DRF}.AnonRateThrottle"], public=True)
    client = MCPClient()

    def requests_from(address: str) -> int:
        client.http.defaults["REMOTE_ADDR"] = address
        return refused_after(client)

    assert [requests_from(each) for each in addresses] == [3] + [0] * (len(addresses) - 1)
    assert requests_from(other) == 3


class Hurried(UserRateThrottle):
    """A site's own class, with a fixed rate and period."""

    rate = "4/fortnight"

    def parse_rate(self, rate: str | None) -> tuple[int | None, int | None]:
        return 4, 14 * 86_400


class Counting(SimpleRateThrottle):
    """A site's own class, which counts without DRF."""

    rate = "2/day"

    def get_cache_key(self, request: Any, view: Any) -> str:
        return "all"

    def throttle_success(self) -> bool:
        CALLS.append("success")
        return super().throttle_success()


class Own(SimpleRateThrottle):
    """A class that decides without DRF: three requests, then none."""

    rate = "1/day"

    def allow_request(self, request: Any, view: Any) -> bool:
        seen = self.cache.get("own", [])
        self.cache.set("own", [*seen, "request"], 60)
        return len(seen) < 3

    def wait(self) -> float:
        return 9


class Overriding(UserRateThrottle):
    """A class that decides more than DRF, and leaves counting to it."""

    rate = "6/day"

    def allow_request(self, request: Any, view: Any) -> bool:
        self.scope = "overriding"
        return super().allow_request(request, view) and not request.META.get("HTTP_X_NO")


class Scoped(ScopedRateThrottle):
    """A throttle of DRF, for a view that names no scope."""

    def allow_request(self, request: Any, view: Any) -> bool:
        view.throttle_scope = "mcp"
        return bool(super().allow_request(request, view))


@pytest.mark.parametrize(
    ("path", "count"),
    [
        (f"{DRF}.UserRateThrottle", 3),
        (f"{__name__}.Hurried", 4),
        (f"{__name__}.Counting", 2),
        (f"{__name__}.Scoped", 5),
        (f"{__name__}.Own", 3),
        (f"{__name__}.Overriding", 6),
    ],
)
def test_requests_are_counted_again_after_a_flush(
    path: str, count: int, modern: CheckedClient, limit: Callable[..., None]
) -> None:
    limit({"user": "3/day", "mcp": "5/day"}, THROTTLE_CLASSES=[path])
    assert refused_after(modern) == count
    assert int(modern.response["Retry-After"]) >= 1
    assert ["success"] * 2 * path.endswith("Counting") == CALLS
    cache.clear()
    assert refused_after(modern) == count


def rows(client: MCPClient, times: int = 4) -> int:
    """Return how many rows so many refused requests write."""
    before = ToolCallRecord.objects.count()
    for _ in range(times):
        with pytest.raises(MCPError):
            client.list_tools()
    return ToolCallRecord.objects.count() - before


@pytest.mark.parametrize("path", [f"{DRF}.UserRateThrottle", f"{__name__}.Refusing"])
def test_one_row_records_all_refusals_of_a_window(
    path: str, user: Any, limit: Callable[..., None]
) -> None:
    limit({"user": "1/day"}, THROTTLE_CLASSES=[path])
    sent: list[str] = []

    def receive(error_code: str, **given: Any) -> None:
        sent.append(error_code)

    other = get_user_model().objects.create_user("eve")
    for client in (MCPClient(user=user), MCPClient(user=other)):
        refused_after(client)
        tool_call_refused.connect(receive)
        assert rows(client) == 0
        tool_call_refused.disconnect(receive)
    assert sent == ["throttled"] * 8
    assert ToolCallRecord.objects.count() == 2
