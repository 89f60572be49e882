"""Tools that run only after a person has agreed, through the client's form or the queue."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core import signing

from mcp_bridge.held import HeldCall, UsedState
from tests.confirming import FORM, RUNS, YES, call, other, refused, state_of, wipe
from tests.conftest import CheckedClient, text_of
from tests.serving import serve, set_tool

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def wiping(settings: Any) -> None:
    RUNS.clear()
    serve(settings, wipe, other, confirm=True, title="Wipe")


@pytest.fixture
def asker(user: Any) -> CheckedClient:
    """A client whose user can be asked."""
    return CheckedClient(user=user, capabilities=FORM)


def test_the_clients_user_is_asked_in_words_and_the_call_runs_once(asker: CheckedClient) -> None:
    arguments = {"name": "all\u202e\x07", "count": 3}
    result = call(asker, arguments=arguments)
    (request,) = result["inputRequests"].values()
    assert request["method"] == "elicitation/create"
    message = request["params"]["message"]
    assert "wipe (Wipe)" in message
    assert '"name": "all\\u202e\\u0007",\n  "count": 3' in message
    assert RUNS == []
    state = result["requestState"]
    answer = call(asker, arguments=arguments, inputResponses=YES, requestState=state)
    assert (answer["isError"], RUNS) == (False, [("all\u202e\x07", 3)])
    assert "used before" in refused(asker, state, arguments=arguments)
    assert not HeldCall.objects.exists()


@pytest.mark.parametrize(
    "answer",
    [
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "accept"},
        {"action": "accept", "content": {"confirm": False}},
        {"action": "accept", "content": {"confirm": "true"}},
        {"action": "accept", "content": {"confirm": 1}},
    ],
)
def test_anything_but_a_yes_is_a_no(answer: Any, asker: CheckedClient) -> None:
    state = state_of(asker)
    result = call(asker, inputResponses={"confirm": answer}, requestState=state)
    assert result["isError"]
    assert text_of(result).startswith("Nothing was run: the user was asked")
    assert RUNS == []
    # The no has used it up.
    assert "used before" in refused(asker, state)


def test_a_yes_without_its_question_is_no_answer(asker: CheckedClient) -> None:
    for params in ({}, {"requestState": None}):
        assert call(asker, inputResponses=YES, **params)["resultType"] == "input_required"
    again = call(asker, inputResponses={"other": YES["confirm"]}, requestState=state_of(asker))
    assert again["resultType"] == "input_required"
    assert RUNS == []


def test_no_changed_byte_of_the_state_is_believed(asker: CheckedClient) -> None:
    state = state_of(asker)
    for place in range(len(state)):
        for byte in ("A" if state[place] != "A" else "B", chr(ord(state[place]) ^ 1)):
            changed = state[:place] + byte + state[place + 1 :]
            assert "not as this server has given it out" in refused(asker, changed)
    for changed in ("", state[:-1], state + "=", state + "\n", f" {state}", "é"):
        refused(asker, changed)
    # All the same it was of use: none of them has used it up.
    assert not call(asker, inputResponses=YES, requestState=state)["isError"]


@pytest.mark.parametrize("params", [{"requestState": 1}, {"requestState": []}])
def test_a_state_is_a_text(params: Any, asker: CheckedClient) -> None:
    assert "must be a string" in refused(asker, **{"state": None, **params})


def test_malformed_answers_are_refused_and_use_nothing_up(asker: CheckedClient) -> None:
    state = state_of(asker)
    for responses in (None, [], {"confirm": 1}, {"confirm": {}}, {"confirm": {"action": "yes"}}):
        assert "inputResponses" in refused(asker, state, inputResponses=responses)
    assert not UsedState.objects.exists()


def test_a_state_is_for_one_user_tool_and_call(asker: CheckedClient, user: Any) -> None:
    state = state_of(asker)
    bob = CheckedClient(user=get_user_model().objects.create_user("bob"), capabilities=FORM)
    assert "another call" in refused(bob, state)
    assert "another call" in refused(asker, state, name="other")
    for arguments in ({"name": "one"}, {"name": "all", "count": 1}, {"name": "all", "count": 2}):
        assert "another call" in refused(asker, state, arguments=arguments)
    # The credential is not part of it.
    again = CheckedClient(user=user, capabilities=FORM)
    assert not call(again, inputResponses=YES, requestState=state)["isError"]


def test_a_state_ends_with_its_time(asker: CheckedClient, monkeypatch: Any) -> None:
    state, now = state_of(asker), time.time()
    with monkeypatch.context() as travel:
        travel.setattr(signing.time, "time", lambda: now + 602)
        assert "too old" in refused(asker, state)
        travel.setattr(signing.time, "time", lambda: now + 598)
        assert not call(asker, inputResponses=YES, requestState=state)["isError"]


def test_a_state_outlives_a_rotated_key_while_the_old_one_counts(
    asker: CheckedClient, settings: Any
) -> None:
    old, states = settings.SECRET_KEY, [state_of(asker) for _ in range(2)]
    settings.SECRET_KEY = "another key"
    assert "not as this server" in refused(asker, states[0])
    settings.SECRET_KEY_FALLBACKS = [old]
    assert not call(asker, inputResponses=YES, requestState=states[1])["isError"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"enabled": False}, "Unknown tool"),
        ({"restricted": True}, "Unknown tool"),
        ({"fingerprint": "another"}, "Unknown tool"),
        ({"description": "Wipes more."}, "another call"),
    ],
)
def test_what_is_changed_in_between_is_not_run(
    change: dict[str, Any], error: str, asker: CheckedClient
) -> None:
    state = state_of(asker)
    set_tool("wipe", **change)
    assert error in refused(asker, state)


def test_what_fails_has_used_up_its_yes(asker: CheckedClient, settings: Any) -> None:
    def broken() -> None:
        """Fail."""
        raise RuntimeError

    serve(settings, broken, confirm=True)
    params = {"name": "broken", "arguments": {}}
    state = state_of(asker, **params)
    assert call(asker, inputResponses=YES, requestState=state, **params)["isError"]
    assert "used before" in refused(asker, state, **params)


@pytest.mark.parametrize("capabilities", [{}, FORM])
def test_who_is_nobody_cannot_be_asked(capabilities: Any, settings: Any) -> None:
    serve(settings, wipe, confirm=True, public=True)
    set_tool("wipe")
    result = call(CheckedClient(capabilities=capabilities), inputResponses=YES)
    assert "Call it with a credential." in text_of(result)
    assert (RUNS, HeldCall.objects.count()) == ([], 0)


def test_wrong_arguments_are_told_before_anybody_is_asked(asker: CheckedClient) -> None:
    assert text_of(call(asker, arguments={})) == "/name: is required and was not sent"


def test_the_owner_can_have_any_tool_ask(asker: CheckedClient, settings: Any) -> None:
    def plain() -> str:
        """Do it."""
        return Group.objects.create(name="done").name

    serve(settings, plain)
    set_tool("plain", confirm=True)
    params = {"name": "plain", "arguments": {}}
    state = state_of(asker, **params)
    assert not Group.objects.exists()
    assert not call(asker, inputResponses=YES, requestState=state, **params)["isError"]
    assert Group.objects.get().name == "done"
