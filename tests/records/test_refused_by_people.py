"""Calls that nobody reads, or that a person has refused, count and share a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache

from mcp_bridge.confirmation.decisions import refuse
from mcp_bridge.confirmation.queue import MAX_ARGUMENTS
from mcp_bridge.models import PendingCall, ToolCallRecord
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve

LONG = "x" * (MAX_ARGUMENTS + 1)


def wipe(text: str) -> str:
    """Wipe something."""
    return text


@pytest.fixture(autouse=True)
def uncounted() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def wiping(settings: Any, throttle: str | None = None, **audit: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"WRITE": "now", **audit}}
    serve(settings, wipe, confirm=True, throttle=throttle)


def said(client: CheckedClient, *texts: str) -> list[str]:
    return [text_of(client.call_tool("wipe", {"text": text})) for text in texts]


def refused_call(client: CheckedClient, *texts: str) -> None:
    """Have calls wait, and refuse them."""
    said(client, *texts)
    judge = get_user_model().objects.create_superuser("judge")
    for pending in PendingCall.objects.all():
        refuse(pending, judge, "Not today.")


def rows(*columns: str) -> list[tuple[Any, ...]]:
    return list(ToolCallRecord.objects.order_by("pk").values_list(*columns))


@pytest.mark.parametrize("kind", ["too long", "refused"])
@pytest.mark.parametrize("elicits", [False, True])
def test_such_calls_count(
    kind: str, elicits: bool, user: Any, settings: Any, revision: str
) -> None:
    wiping(settings, throttle="5/hour")
    capabilities = {"elicitation": {}} if elicits and revision == "2026-07-28" else {}
    client = CheckedClient(user=user, revision=revision, capabilities=capabilities)
    text = LONG
    if kind == "refused":
        legacy = CheckedClient(user=user, revision="2025-06-18")
        refused_call(legacy, "a")
        text = "a"
    told = said(client, *[text] * 8)
    expected = "a person refused" if kind == "refused" else "exceed the limit"
    ran = [expected in each for each in told]
    assert ran == [number < (4 if kind == "refused" else 5) for number in range(8)]
    assert "Too many calls" in told[-1]


@pytest.mark.parametrize("texts", [[LONG], [LONG + "1", LONG + "2"]], ids=["same", "others"])
def test_calls_that_are_too_long_share_a_row(texts: list[str], user: Any, settings: Any) -> None:
    wiping(settings)
    said(CheckedClient(user=user), *texts * 10)
    said(CheckedClient(user=get_user_model().objects.create_user("eve")), *texts * 3)
    assert rows("user_name", "error_code", "times") == [
        ("ada", "unconfirmed", 10 * len(texts)),
        ("eve", "unconfirmed", 3 * len(texts)),
    ]


def test_repetitions_of_a_refused_call_share_a_row(user: Any, settings: Any) -> None:
    wiping(settings)
    client = CheckedClient(user=user)
    refused_call(client, "a", "b")
    # Each call that waits has a row of its own.
    assert rows("times") == [(1,), (1,)]
    said(client, *["a", "b", "a"] * 5)
    calls = PendingCall.objects.order_by("pk").values_list("pk", flat=True)
    assert rows("pending_call_id", "times")[2:] == [(calls[0], 10), (calls[1], 5)]


def test_other_arguments_have_another_row(user: Any, settings: Any) -> None:
    wiping(settings, ARGUMENTS="full")
    client = CheckedClient(user=user)
    said(client, f"1{LONG}", f"2{LONG}", f"1{LONG}")
    assert rows("times") == [(2,), (1,)]
    ToolCallRecord.objects.all().delete()
    for text in ("a", "b", "a"):
        with pytest.raises(MCPError):
            client.call_tool("nothing", {"text": text})
    assert rows("arguments", "times") == [('{"text": "a"}', 2), ('{"text": "b"}', 1)]
