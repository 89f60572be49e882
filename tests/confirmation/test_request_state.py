"""The requestState of a question: valid for one call, once, and for a limited time."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core import signing
from django.db import connection
from pydantic import BaseModel

from mcp_bridge import Context
from mcp_bridge.elicitation import elicit
from mcp_bridge.models import PendingCall, ToolSetting
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.calls.test_database_faults import Failing
from tests.support.confirming import FORM, RUNS, YES, call, refused, state_of, wipe
from tests.support.serving import set_tool
from tests.support.values import dumps

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("wiping")]


@pytest.mark.requirement("mrtr.state-integrity", "mrtr.state-untrusted")
def test_tampered_state_is_refused(asker: CheckedClient) -> None:
    state = state_of(asker)
    for place in range(len(state)):
        for byte in ("A" if state[place] != "A" else "B", chr(ord(state[place]) ^ 1)):
            changed = state[:place] + byte + state[place + 1 :]
            assert "it was not issued by this server" in refused(asker, changed)
    for changed in ("", state[:-1], state + "=", state + "\n", f" {state}", "é"):
        refused(asker, changed)
    # The original is still valid: none of the attempts has consumed it.
    assert not call(asker, inputResponses=YES, requestState=state)["isError"]


@pytest.mark.parametrize("params", [{"requestState": 1}, {"requestState": []}])
def test_non_string_state_is_refused(params: Any, asker: CheckedClient) -> None:
    assert "must be a string" in refused(asker, **{"state": None, **params})


@pytest.mark.requirement("mrtr.state-principal", "mrtr.state-request", "elicit.bound")
def test_state_is_bound_to_user_tool_and_call(asker: CheckedClient, user: Any) -> None:
    state = state_of(asker)
    bob = CheckedClient(user=get_user_model().objects.create_user("bob"), capabilities=FORM)
    assert "another call" in refused(bob, state)
    assert "another call" in refused(asker, state, name="other")
    for arguments in ({"name": "one"}, {"name": "all", "count": 2}):
        assert "another call" in refused(asker, state, arguments=arguments)
    # The credential is not part of it.
    again = CheckedClient(user=user, capabilities=FORM)
    assert not call(again, inputResponses=YES, requestState=state)["isError"]


class Letter(BaseModel):
    text: str


def test_state_survives_a_tool_that_mutates_its_arguments(
    asker: CheckedClient, settings: Any
) -> None:
    def change(context: Context, names: list[str]) -> str:
        """Change what was given."""
        names.append("more")
        return elicit(context, "Which?", Letter).text

    serve(settings, change)
    params: dict[str, Any] = {"name": "change", "arguments": {"names": ["a"]}}
    asked = call(asker, **params)
    (key,) = asked["inputRequests"]
    answer = {key: {"action": "accept", "content": {"text": "b"}}}
    result = call(asker, requestState=asked["requestState"], inputResponses=answer, **params)
    assert text_of(result) == "b"


def elicits(context: Context) -> str:
    """Ask a question, after a yes."""
    return elicit(context, "Which?", Letter).text


@pytest.mark.parametrize("how", ["form", "queue"])
def test_approval_expires_despite_further_questions(
    how: str, asker: CheckedClient, settings: Any, monkeypatch: Any
) -> None:
    serve(settings, elicits, confirm=True)
    params: dict[str, Any] = {"name": "elicits", "arguments": {}}
    state, now, agreed = state_of(asker, **params), time.time(), {}
    if how == "form":
        agreed = {"inputResponses": YES, "requestState": state}
    else:
        cancel = {"confirm": {"action": "cancel"}}
        call(asker, inputResponses=cancel, requestState=state, **params)
        PendingCall.objects.get().decide(using="default", status="approved")
    asked = call(asker, **agreed, **params)
    (key,) = asked["inputRequests"]
    wrong = {key: {"action": "accept", "content": {"text": 1}}}
    right = {key: {"action": "accept", "content": {"text": "done"}}}
    with monkeypatch.context() as travel:
        # Each question is recent, but the approval is not.
        travel.setattr(signing.time, "time", lambda: now + 500)
        again = call(asker, requestState=asked["requestState"], inputResponses=wrong, **params)
        answered = {"requestState": again["requestState"], "inputResponses": right}
        travel.setattr(signing.time, "time", lambda: now + 605)
        assert "has expired" in refused(
            asker, again["requestState"], inputResponses=right, **params
        )
        travel.setattr(signing.time, "time", lambda: now + 595)
        assert text_of(call(asker, **answered, **params)) == "done"


@pytest.mark.requirement("mrtr.state-expiry")
def test_state_expires(asker: CheckedClient, monkeypatch: Any) -> None:
    state, now = state_of(asker), time.time()
    with monkeypatch.context() as travel:
        travel.setattr(signing.time, "time", lambda: now + 602)
        assert "has expired" in refused(asker, state)
        # Another server's clock may be behind the one that asked.
        travel.setattr(signing.time, "time", lambda: now - 60)
        assert not call(asker, inputResponses=YES, requestState=state_of(asker))["isError"]
        travel.setattr(signing.time, "time", lambda: now + 598)
        assert not call(asker, inputResponses=YES, requestState=state)["isError"]


def test_state_is_valid_under_a_fallback_key(asker: CheckedClient, settings: Any) -> None:
    old, states = settings.SECRET_KEY, [state_of(asker) for _ in range(2)]
    settings.SECRET_KEY = "another key"
    assert "it was not issued by this server" in refused(asker, states[0])
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
def test_confirmed_call_is_refused_if_arguments_changed(
    change: dict[str, Any], error: str, asker: CheckedClient
) -> None:
    state = state_of(asker)
    set_tool("wipe", **change)
    assert error in refused(asker, state)


@pytest.mark.requirement("state.no-credential")
def test_state_is_refused_for_other_users(asker: CheckedClient, settings: Any) -> None:
    # Public, so that every caller reaches the question.
    serve(settings, wipe, confirm=True, public=True)
    state = state_of(asker)
    assert "another call" in refused(CheckedClient(capabilities=FORM), state)
    serve(settings, wipe, confirm=True)
    nobody = CheckedClient(capabilities=FORM)
    nobody.send(dumps(nobody.message("tools/call", name="wipe", requestState=state)))
    assert (nobody.response.status_code, RUNS) == (401, [])


@pytest.mark.requirement("security.every-request")
def test_approval_is_void_after_access_is_lost(user: Any, settings: Any) -> None:
    serve(settings, wipe, confirm=True, permissions="auth.add_group")
    user.user_permissions.add(Permission.objects.get(codename="add_group"))
    again = get_user_model().objects.get
    state = state_of(CheckedClient(user=again(pk=user.pk), capabilities=FORM))
    call(CheckedClient(user=again(pk=user.pk)))
    PendingCall.objects.get().decide(using="default", status="approved")
    user.user_permissions.clear()
    asker = CheckedClient(user=again(pk=user.pk), capabilities=FORM)
    for given in (state, None):
        assert "Unknown tool" in refused(asker, given)
    get_user_model().objects.update(is_active=False)
    with pytest.raises(MCPError, match="not valid"):
        call(CheckedClient(user=again(pk=user.pk)), state)


def test_confirmed_call_is_refused_if_parameters_changed(
    asker: CheckedClient, settings: Any
) -> None:
    def changed(name: str, count: int = 1, deeply: bool = True) -> str:
        """Wipe something."""
        raise AssertionError

    state = state_of(asker)
    changed.__name__ = "wipe"
    serve(settings, changed, confirm=True, title="Wipe")
    # Withheld until the change is approved; after that, it is not the tool that was asked about.
    assert "Unknown tool" in refused(asker, state)
    ToolSetting.objects.all().delete()
    assert "another call" in refused(asker, state)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["form", "queue"])
def test_approval_runs_once_despite_database_failures(how: str, user: Any, settings: Any) -> None:
    client = CheckedClient(user=user, capabilities=FORM if how == "form" else {})
    fails, failing, ran = 0, Failing(), 0
    while failing.count >= fails:
        RUNS.clear()
        params: dict[str, Any] = {"arguments": {"name": f"{fails}"}}
        if how == "form":
            state = state_of(client, **params)
            params |= {"inputResponses": YES, "requestState": state}
        else:
            call(client, **params)
            PendingCall.objects.get(status="waiting").decide(using="default", status="approved")
        fails += 1
        failing = Failing(fails)
        with connection.execute_wrapper(failing), suppress(MCPError):
            call(client, **params)
        with suppress(MCPError):
            call(client, **params)
        assert len(RUNS) <= 1
        ran += len(RUNS)
        PendingCall.objects.all().delete()
    assert 3 < ran <= fails
