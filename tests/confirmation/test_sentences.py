"""The exact texts for models and people about refused, questioned and queued calls."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.messages import constants
from django.core import signing
from rest_framework.throttling import BaseThrottle

from mcp_bridge.confirmation import queue as approval_queue
from mcp_bridge.confirmation.decisions import approve, end_of, obstacle_to, refuse
from mcp_bridge.models import PendingCall, ToolCallRecord
from mcp_bridge.records.rows import flush
from mcp_bridge.testing import MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.administrator import serve_tools
from tests.support.confirming import FORM, YES, call, state_of, wipe
from tests.support.serving import set_tool

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("wiping")]

STATE = (
    "Invalid requestState: {}. Nothing was run. Call the tool without requestState and "
    "inputResponses to start again."
)
NEEDS = "Nothing was run: wipe requires a person's approval"
THEN = (
    "Then repeat it with the same arguments within 10 minutes of the approval; repeating it "
    "earlier has no effect."
)


def error(client: CheckedClient, method: str = "tools/list", **params: Any) -> str:
    with pytest.raises(MCPError) as raised:
        client.post(method, **params)
    return str(raised.value.error["message"])


def test_question_shows_the_call(asker: CheckedClient) -> None:
    (request,) = call(asker)["inputRequests"].values()
    assert request["params"]["message"] == (
        'May wipe (Wipe) be run, once, with these arguments?\n\n{\n  "name": "all"\n}'
    )


def test_declined_call_is_not_asked_again(asker: CheckedClient) -> None:
    no = {"confirm": {"action": "decline"}}
    result = call(asker, inputResponses=no, requestState=state_of(asker))
    assert text_of(result) == (
        "Nothing was run: the user was asked whether wipe may run with these arguments, and "
        "declined. Do not call it again unless the user wants it."
    )


def test_state_is_refused_with_a_reason(
    asker: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(state: str, **params: Any) -> str:
        params = {"name": "wipe", "arguments": {"name": "all"}, **params}
        return error(asker, "tools/call", inputResponses=YES, requestState=state, **params)

    state = state_of(asker)
    another = (
        "it belongs to another call: the user, the tool, its definition and the arguments must all "
        "be the same"
    )
    assert told(state, arguments={"name": "none"}) == STATE.format(another)
    assert told("forged") == STATE.format("it was not issued by this server, or it was modified")
    call(asker, inputResponses=YES, requestState=state)
    assert told(state) == STATE.format("it has been used already")
    state, now = state_of(asker), time.time()
    monkeypatch.setattr(signing.time, "time", lambda: now + 605)  # type: ignore[attr-defined]
    assert told(state) == STATE.format("it has expired")


def test_queued_call_names_its_address_and_expiry(modern: CheckedClient, settings: Any) -> None:
    text = text_of(call(modern))
    held = PendingCall.objects.get()
    assert text == (
        f"{NEEDS}. The call is pending as number {held.pk}. Ask the user (do not do it yourself) "
        f"to have it approved with `manage.py mcp_pending approve {held.pk} --user NAME` on the "
        f"server by someone with permission. {THEN}"
    )
    serve_tools(settings, wipe, confirm=True, title="Wipe")
    text = text_of(call(modern))
    page = f"/admin/mcp_bridge/pendingcall/{PendingCall.objects.latest('pk').pk}/change/"
    there = (
        f"{NEEDS}. The call is pending at http://testserver{page}. Ask the user to have it "
        "approved there by"
    )
    assert text == f"{there} someone with permission. {THEN}"
    settings.MCP_BRIDGE = {"FOUR_EYES": True, "CONFIRMATION_MAX_AGE": 45}
    then = THEN.replace("10 minutes", "45 seconds")
    assert text_of(call(modern)) == f"{there} someone else with permission. {then}"


def test_unqueueable_call_is_refused_with_a_reason(
    modern: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert text_of(call(modern, arguments={"name": "x" * 70_000})) == (
        f"{NEEDS}, and the arguments exceed the limit of 65536 characters for review. Split the "
        "task into smaller calls."
    )
    monkeypatch.setattr(approval_queue, "MOST_WAITING", 1)
    call(modern)
    assert text_of(call(modern, arguments={"name": "more"})) == (
        f"{NEEDS}, and 1 calls of this user are already pending. Wait until some of them are "
        "decided."
    )


def test_non_user_caller_is_refused_with_a_reason(settings: Any) -> None:
    serve(settings, wipe, confirm=True, public=True)
    assert text_of(call(CheckedClient(capabilities=FORM))) == (
        f"{NEEDS}, which only calls of users can get. Call it with the credential of a user of "
        "this site."
    )


def test_refusal_is_returned_to_the_caller(modern: CheckedClient) -> None:
    call(modern)
    PendingCall.objects.get().decide(using="default", status="refused", reason="Not today")
    assert text_of(call(modern)) == (
        "Nothing was run: a person refused this call of wipe. Reason: Not today. Do not "
        "repeat it unless the user wants it."
    )


def test_unauthenticated_caller_is_told_what_to_send() -> None:
    client = CheckedClient()
    needed = "Authentication required: send a credential in the Authorization header."
    assert error(client) == needed
    assert client.response["WWW-Authenticate"] == 'Bearer realm="mcp"'
    client = CheckedClient(token="wrong")
    assert error(client) == "The credential is not valid: it may have expired or been revoked."
    challenge = 'Bearer realm="mcp", error="invalid_token"'
    assert client.response["WWW-Authenticate"] == challenge
    client = CheckedClient()
    client.headers["Authorization"] = "Basic x"
    assert error(client) == (
        "The credential is not valid: it may have expired or been revoked. "
        "Send it as `Authorization: Bearer TOKEN`."
    )


class Often(BaseThrottle):
    """Refuses every call, with or without a time to retry."""

    seconds: float | None = None

    def allow_request(self, request: Any, view: Any) -> bool:
        return False

    def wait(self) -> float | None:
        return self.seconds


@pytest.mark.parametrize(
    ("seconds", "advice"),
    [
        (None, " Wait before retrying."),
        (0.2, " Retry after 1 second."),
        (1.5, " Retry after 2 seconds."),
    ],
)
def test_rate_limited_call_names_when_to_retry(
    seconds: float | None,
    advice: str,
    modern: CheckedClient,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Often, "seconds", seconds)
    settings.MCP_BRIDGE = {"THROTTLE_CLASSES": [f"{__name__}.Often"]}
    assert error(modern) == f"Too many requests.{advice}"


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("approved", "Nothing was changed: eve has already decided (approved, not run yet)."),
        ("refused", "Nothing was changed: eve has already decided (refused)."),
    ],
)
def test_late_decision_names_the_earlier_decider(
    status: str, told: str, modern: CheckedClient, user: Any
) -> None:
    eve = get_user_model().objects.create_user("eve")
    call(modern)
    held = PendingCall.objects.get()
    held.decide(using="default", status=status, decided_by=eve)
    assert approve(held, user) == (told, constants.WARNING)
    assert refuse(held, user, "No.") == (told, constants.WARNING)
    PendingCall.objects.update(decided_by=None)
    assert approve(held, user)[0] == told.replace("eve", "someone")
    PendingCall.objects.all().delete()
    gone = "Nothing was changed: the call has been deleted in the meantime."
    assert approve(held, user) == (gone, constants.WARNING)


def test_decider_sees_the_consequence(modern: CheckedClient, user: Any) -> None:
    for name in "ab":
        call(modern, arguments={"name": name})
    later, first = PendingCall.objects.all()
    why = "Enter a reason for the refusal; the caller reads it."
    assert refuse(later, user, " \n ") == (why, constants.ERROR)
    refused = "The call was refused. Its caller receives the reason."
    assert refuse(later, user, " Not today.\0 ") == (refused, constants.SUCCESS)
    later.refresh_from_db()
    assert (later.status, later.decided_by, later.reason) == ("refused", user, "Not today.\ufffd")
    approved = (
        "The call was approved. It runs now if it is a task that was not cancelled, otherwise "
        "when its caller repeats it, by {} at the latest."
    )
    assert approve(first, user) == (approved.format(end_of(first)), constants.SUCCESS)
    assert end_of(first) != ""
    first.refresh_from_db()
    assert (first.status, first.decided_by, first.reason) == ("approved", user, "")


def test_unapprovable_call_shows_the_reason(
    modern: CheckedClient, user: Any, settings: Any
) -> None:
    call(modern)
    held = PendingCall.objects.get()
    assert obstacle_to(held, user) == ""
    settings.MCP_BRIDGE = {"FOUR_EYES": True}
    own = "You cannot approve your own call. Another person must approve it."
    assert approve(held, user) == (own, constants.ERROR)
    settings.MCP_BRIDGE = {}
    set_tool("wipe", description="Wipes more.")
    another = (
        "This call cannot be approved: the definition has changed since. The caller must repeat it."
    )
    assert approve(held, user) == (another, constants.ERROR)
    set_tool("wipe", description="", enabled=False)
    off = "This call cannot be approved: it is not available now (disabled)."
    assert approve(held, user) == (off, constants.ERROR)
    held.tool = "gone"
    gone = "This call cannot be approved: it is not available now (no longer exists)."
    assert approve(held, user) == (gone, constants.ERROR)


def test_queued_and_refused_calls_link_their_pending_call(
    asker: CheckedClient, user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recorded() -> tuple[str, int | None]:
        flush()
        found = ToolCallRecord.objects.latest("pk")
        return str(found.error_code), found.pending_call_id

    no = {"confirm": {"action": "decline"}}
    call(asker, inputResponses=no, requestState=state_of(asker))
    assert recorded() == ("unconfirmed", None)
    call(asker, arguments={"name": "x" * 70_000})
    assert recorded() == ("unconfirmed", None)
    mute = CheckedClient(user=user)
    call(mute)
    held = PendingCall.objects.get()
    assert recorded() == ("unconfirmed", held.pk)
    monkeypatch.setattr(approval_queue, "MOST_WAITING", 1)
    call(mute, arguments={"name": "more"})
    assert recorded() == ("unconfirmed", None)
    # Each user has a separate limit, and decided calls do not count.
    eve = CheckedClient(user=get_user_model().objects.create_user("eve"))
    call(eve)
    assert recorded() == ("unconfirmed", PendingCall.objects.latest("pk").pk)
    held.decide(using="default", status="refused", reason="No!")
    assert "Reason: No! Do not" in text_of(call(mute))
    assert recorded() == ("unconfirmed", held.pk)
    call(mute, arguments={"name": "more"})
    assert PendingCall.objects.filter(user=user).count() == 2
