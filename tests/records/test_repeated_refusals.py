"""Refusals that a caller gets repeatedly are one row a minute, with their number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.records import repeats
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.recording import look, record
from tests.support.values import dumps

DRF = "rest_framework.throttling"


@pytest.fixture(autouse=True)
def uncounted() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def stranger(address: str = "198.51.100.7", **options: Any) -> CheckedClient:
    """Return a client without a user, at an address."""
    client = CheckedClient(**options)
    client.http.defaults["REMOTE_ADDR"] = address
    return client


def call(client: CheckedClient, name: str, **arguments: Any) -> None:
    """Send a call, and ignore its outcome."""
    message = client.message("tools/call", name=name, arguments=arguments)
    client.send(dumps(message), client.mirrored(message))


def rows(*columns: str) -> list[tuple[Any, ...]]:
    return list(ToolCallRecord.objects.order_by("pk").values_list(*columns))


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("kept", ["redacted", "full"])
def test_unknown_names_of_anonymous_callers_share_a_row(
    kept: str, asynchronous: bool, user: Any, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": kept}}
    serve(settings, look, asynchronous=asynchronous, public=True)
    for revision in ("2026-07-28", "2025-11-25"):
        client = stranger(revision=revision)
        for number in range(20):
            call(client, f"made up {number}", word="x" * 2000)
    assert rows("tool", "error_code", "times", "arguments") == [
        ("made up 0", "unknown_tool", 40, "")
    ]
    # A call of one of their tools is recorded with its arguments.
    call(stranger(), "look", word=5)
    assert ToolCallRecord.objects.latest("pk").arguments == '{"word": 5}'
    # A user who is logged in has a row for each name.
    for _ in range(3):
        call(CheckedClient(user=user), "one", word="x")
        call(CheckedClient(user=user), "two", word="x")
    assert rows("tool", "times", "arguments")[2:] == [
        ("one", 3, '{"word": "x"}'),
        ("two", 3, '{"word": "x"}'),
    ]


def test_each_address_kind_and_minute_has_a_row(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(settings, look, public=True)
    addresses = ["198.51.100.7", "198.51.100.8", "2001:db8:0:1::1", "2001:db8:0:1:ffff::2"]
    addresses += ["2001:db8:0:2::1", "::ffff:198.51.100.7", "::ffff:198.51.100.8", "no address"]
    for address in addresses * 2:
        call(stranger(address), "nothing")
    # All of a /64 is one client's, and an address of IPv4 is the same inside IPv6.
    assert rows("remote_address", "times") == [
        ("198.51.100.7", 4),
        ("198.51.100.8", 4),
        ("2001:db8:0:1::1", 4),
        ("2001:db8:0:2::1", 2),
        ("no address", 2),
    ]
    call(stranger(token="mcp_wrong"), "nothing")
    assert rows("error_code", "times")[-1] == ("unauthenticated", 1)
    later = repeats.monotonic() + repeats.WINDOW
    monkeypatch.setattr(repeats, "monotonic", lambda: later)
    call(stranger(), "nothing")
    assert rows("error_code", "times")[-1] == ("unknown_tool", 1)


def test_remembered_refusals_are_bounded(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "MOST", 3)
    serve(settings, look, public=True)
    for number in range(10):
        call(stranger(f"198.51.100.{number}"), "nothing")
    assert len(repeats.refusals._known) <= 4
    # The newest are still remembered.
    call(stranger("198.51.100.9"), "nothing")
    assert ToolCallRecord.objects.latest("pk").times == 2


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_throttled_requests_of_an_anonymous_caller_are_one_row(
    asynchronous: bool, settings: Any
) -> None:
    settings.MCP_BRIDGE = {
        "THROTTLE_CLASSES": [f"{DRF}.AnonRateThrottle"],
        "THROTTLE_RATES": {"anon": "2/min"},
    }
    serve(settings, look, asynchronous=asynchronous, public=True)
    for number in range(12):
        call(stranger(), f"made up {number}")
    assert rows("error_code", "times") == [("unknown_tool", 2), ("throttled", 10)]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_refusals_of_anonymous_callers_can_be_left_out(
    asynchronous: bool, user: Any, settings: Any
) -> None:
    settings.MCP_BRIDGE = {
        "AUDIT": {"UNAUTHENTICATED": False},
        "THROTTLE_CLASSES": [
            "mcp_bridge.access.throttling.ToolRateThrottle",
            f"{DRF}.AnonRateThrottle",
        ],
        "THROTTLE_RATES": {"look": "1/min", "anon": "5/min"},
    }
    serve(settings, look, asynchronous=asynchronous, public=True)
    for name in ("look", "look", "nothing", "look", "look", "look", "look"):
        call(stranger(), name)
    call(stranger("198.51.100.8", token="mcp_wrong"), "look")
    # A call that ran, and an invalid one of one of their tools.
    call(stranger("198.51.100.9"), "look", word=5)
    assert rows("outcome", "error_code") == [("succeeded", ""), ("refused", "invalid")]
    call(CheckedClient(user=user), "nothing")
    call(CheckedClient(user=user), "look")
    call(CheckedClient(user=user), "look")
    assert rows("outcome", "error_code")[2:] == [
        ("refused", "unknown_tool"),
        ("succeeded", ""),
        ("refused", "throttled"),
    ]


def test_missing_row_of_refusals_is_written_again(user: Any, settings: Any) -> None:
    serve(settings, look)
    client = CheckedClient(user=user)
    with transaction.atomic():
        call(client, "nothing")
        transaction.set_rollback(True)
    for _ in range(2):
        call(client, "nothing")
    assert (record().tool, record().times) == ("nothing", 3)
