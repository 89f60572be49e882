"""Which calls count as the same one for an approval or a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge.models import PendingCall
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.confirming import RUNS, YES, call, refused, state_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("wiping")]


def keep(value: Any, more: int = 0) -> None:
    """Keep a value."""
    RUNS.append(value)


@pytest.mark.parametrize(
    ("sent", "other"),
    [
        (1, True),
        (1, 1.0),
        (0, False),
        (None, {}),
        ("1", 1),
        ("caf\u00e9", "cafe\u0301"),
        ("\ufb01", "fi"),
        ("a", "a "),
        (["a", "b"], ["b", "a"]),
        ({"a": 1}, {"a": 1, "b": None}),
        (10**30, 10**30 + 1),
        (10**17, 1e17),
    ],
)
def test_different_arguments_are_another_call(
    sent: Any, other: Any, asker: CheckedClient, settings: Any
) -> None:
    serve(settings, keep, confirm=True)
    state = state_of(asker, name="keep", arguments={"value": sent})
    assert "another call" in refused(asker, state, name="keep", arguments={"value": other})


@pytest.mark.parametrize("arguments", [{"value": 1, "more": 0}, {"value": 1, "more": None}])
def test_spelled_out_default_is_another_call(
    arguments: Any, asker: CheckedClient, settings: Any
) -> None:
    serve(settings, keep, confirm=True)
    state = state_of(asker, name="keep", arguments={"value": 1})
    assert "another call" in refused(asker, state, name="keep", arguments=arguments)


def test_member_order_does_not_change_the_call(
    asker: CheckedClient, user: Any, settings: Any
) -> None:
    serve(settings, keep, confirm=True)
    one = {"value": {"a": [{"c": 1, "d": "\u00e9"}], "b": 2}, "more": 1}
    other = {"more": 1, "value": {"b": 2, "a": [{"d": "\u00e9", "c": 1}]}}
    state = state_of(asker, name="keep", arguments=one)
    call(CheckedClient(user=user), "keep", arguments=one)
    PendingCall.objects.get().decide(using="default", status="refused", reason="Never.")
    for params in ({}, {"inputResponses": YES, "requestState": state}):
        assert "Reason: Never." in text_of(call(asker, "keep", arguments=other, **params))
    assert RUNS == []
    PendingCall.objects.all().delete()
    state = state_of(asker, name="keep", arguments=one)
    answer = {"inputResponses": YES, "requestState": state}
    assert not call(asker, "keep", arguments=other, **answer)["isError"]
    assert [one["value"]] == RUNS


def test_refused_call_with_other_spelling_is_queued_again(user: Any, settings: Any) -> None:
    serve(settings, keep, confirm=True)
    client = CheckedClient(user=user)
    call(client, "keep", arguments={"value": 1})
    PendingCall.objects.get().decide(using="default", status="refused", reason="Never.")
    result = call(client, "keep", arguments={"value": 1, "more": 0})
    assert "The call is pending" in text_of(result)
    assert RUNS == []


def test_approval_does_not_cover_another_spelling(user: Any, settings: Any) -> None:
    serve(settings, keep, confirm=True)
    client = CheckedClient(user=user)
    call(client, "keep", arguments={"value": 1})
    PendingCall.objects.get().decide(using="default", status="approved")
    result = call(client, "keep", arguments={"value": 1, "more": 0})
    assert "The call is pending" in text_of(result)
    assert RUNS == []
    assert not call(client, "keep", arguments={"value": 1})["isError"]
    assert RUNS == [1]
