"""The approval queue in the admin."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.urls import reverse
from django.utils import timezone
from pydantic import Field

from mcp_bridge.models import PendingCall
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from tests.support.administrator import CHANGE, VIEW, Administrator, row, serve_tools
from tests.support.serving import set_tool

pytestmark = pytest.mark.django_db
MARKER = "<script>alert(1)</script>"
SEE, DECIDE = "view_pendingcall", "change_pendingcall"
CALLS: list[str] = []


def shout(word: str) -> str:
    """Shout a word."""
    CALLS.append(word)
    return word


@pytest.fixture
def caller(settings: Any) -> CheckedClient:
    CALLS.clear()
    serve_tools(settings, shout, confirm=True)
    return CheckedClient(user=get_user_model().objects.create_user(f"ada{MARKER}"))


@pytest.fixture
def pending(caller: CheckedClient) -> PendingCall:
    assert caller.call_tool("shout", {"word": MARKER})["isError"]
    return PendingCall.objects.get()


def page(
    administrator: Administrator,
    pending: PendingCall | None = None,
    expected: int = 200,
    **data: str,
) -> str:
    """Return the list or a call's page, after a decision if there is one."""
    name = "admin:mcp_bridge_pendingcall_changelist"
    address = reverse(name) if pending is None else reverse(f"{name[:-4]}", args=[pending.pk])
    browser = administrator.browser
    response = browser.post(address, data, follow=True) if data else browser.get(address)
    assert response.status_code == expected, response.status_code
    text = response.content.decode()
    assert MARKER not in text
    return text


def test_pending_call_is_listed_and_approved(caller: CheckedClient, pending: PendingCall) -> None:
    administrator = Administrator(SEE, DECIDE)
    text = page(administrator)
    for part in ("shout", "ada&lt;script&gt;", "shout: &lt;script", "0\xa0min"):
        assert part in text
    text = page(administrator, pending)
    assert "Run shout once?" in text
    assert "mcp_bridge.testing" in text
    assert "The call was approved" in page(administrator, pending, _approve="1")
    (entry,) = LogEntry.objects.all()
    # Arguments do not outlive the call in the history.
    assert entry.object_repr == str(PendingCall.objects.get())
    assert entry.object_repr.endswith(f"({entry.object_id})")
    assert (entry.user, entry.get_change_message()) == (administrator.user, "Approved.")
    assert caller.call_tool("shout", {"word": MARKER})["isError"] is False
    assert CALLS == [MARKER]
    assert "has been run" in page(administrator, pending)
    assert "0 pending calls" in page(administrator)
    assert "administrator has already decided (has been run)" in page(
        administrator, pending, _approve="1"
    )
    assert caller.call_tool("shout", {"word": MARKER})["isError"]


def test_tool_list_links_to_pending_calls(caller: CheckedClient, pending: PendingCall) -> None:
    administrator = Administrator(VIEW, SEE)
    address = reverse("admin:mcp_bridge_pendingcall_changelist")
    assert f'<a href="{address}">1 call is pending approval.</a>' in administrator.get("changelist")
    assert "call waits" not in Administrator(VIEW, username="other").get("changelist")
    pending.decide(using="default", status="refused", decided_by=administrator.user, reason="No.")
    assert "call waits" not in administrator.get("changelist")


def test_refusal_requires_a_reason_for_the_caller(
    caller: CheckedClient, pending: PendingCall
) -> None:
    administrator = Administrator(SEE, DECIDE)
    for data in ({"_refuse": "1"}, {"_refuse": "1", "reason": " "}, {"reason": "x"}):
        page(administrator, pending, **data)
        pending.refresh_from_db()
        assert pending.status == "waiting"
    page(administrator, pending, _refuse="1", reason=f"Too loud. {MARKER}")
    text = text_of(caller.call_tool("shout", {"word": MARKER}))
    assert f"Reason: Too loud. {MARKER}" in text
    assert CALLS == []
    assert "Refused: Too loud." in LogEntry.objects.get().get_change_message()


def test_reason_is_cleaned_and_truncated_for_any_database(pending: PendingCall) -> None:
    page(Administrator(SEE, DECIDE), pending, _refuse="1", reason=f" \0{'x' * 3_000}")
    pending.refresh_from_db()
    assert pending.reason == "\ufffd" + "x" * 1_998


def test_get_request_does_not_decide(pending: PendingCall) -> None:
    administrator = Administrator()
    address = reverse("admin:mcp_bridge_pendingcall_change", args=[pending.pk])
    for verb in ("get", "head", "options"):
        getattr(administrator.browser, verb)(address, {"_approve": "1"})
    administrator.browser.get(f"{address}?_approve=1&_refuse=1&reason=x")
    administrator.browser.post(f"{address}?_approve=1")
    pending.refresh_from_db()
    assert (pending.status, LogEntry.objects.count()) == ("waiting", 0)


def test_former_staff_cannot_decide(pending: PendingCall) -> None:
    address = reverse("admin:mcp_bridge_pendingcall_change", args=[pending.pk])
    for gone in ("is_active", "is_staff"):
        administrator = Administrator(SEE, DECIDE, username=gone)
        get_user_model().objects.filter(pk=administrator.user.pk).update(**{gone: False})
        response = administrator.browser.post(address, {"_approve": "1"})
        assert (response.status_code, "/login/" in response.headers["Location"]) == (302, True)
    pending.refresh_from_db()
    assert pending.status == "waiting"


def test_own_call_can_be_approved_unless_four_eyes(caller: CheckedClient, settings: Any) -> None:
    administrator = Administrator(SEE, DECIDE)
    own = CheckedClient(user=administrator.user)
    for four_eyes in (False, True):
        settings.MCP_BRIDGE = {"FOUR_EYES": four_eyes}
        assert own.call_tool("shout", {"word": "a"})["isError"]
        pending = PendingCall.objects.get(status="waiting")
        assert ("your own call" in page(administrator, pending)) is four_eyes
        assert ("your own call" in page(administrator, pending, _approve="1")) is four_eyes
        assert own.call_tool("shout", {"word": "a"})["isError"] is four_eyes
    assert CALLS == ["a"]
    assert "The call was approved" in page(
        Administrator(SEE, DECIDE, username="other"), pending, _approve="1"
    )
    assert own.call_tool("shout", {"word": "a"})["isError"] is False
    # A user may refuse their own call: that equals not making it.
    own.call_tool("shout", {"word": "b"})
    pending = PendingCall.objects.get(status="waiting")
    assert "The call was refused" in page(administrator, pending, _refuse="1", reason="Never mind.")


def test_pages_require_permissions_and_csrf_token(pending: PendingCall) -> None:
    viewer = Administrator(SEE, username="viewer")
    assert "_approve" not in page(viewer, pending)
    page(viewer, pending, expected=403, _approve="1")
    stranger = Administrator(VIEW, CHANGE, username="stranger")
    page(stranger, expected=403)
    page(stranger, pending, expected=403)
    page(stranger, pending, expected=403, _approve="1")
    administrator = Administrator()
    administrator.browser.handler.enforce_csrf_checks = True
    page(administrator, pending, expected=403, _approve="1")
    pending.refresh_from_db()
    assert pending.status == "waiting"
    pending.delete()
    pending.pk = 999_999
    page(Administrator(username="other"), pending, expected=404)


@pytest.mark.parametrize("change", [{"enabled": False}, {"description": "Louder."}])
def test_call_of_a_changed_tool_is_not_approved(
    change: dict[str, Any], pending: PendingCall
) -> None:
    set_tool("shout", **change)
    administrator = Administrator(SEE, DECIDE)
    assert "This call cannot be approved" in page(administrator, pending)
    assert "This call cannot be approved" in page(administrator, pending, _approve="1")
    pending.refresh_from_db()
    assert pending.status == "waiting"
    page(administrator, pending, _refuse="1", reason="Out of date.")
    pending.refresh_from_db()
    assert pending.status == "refused"


def test_trial_is_confirmed_by_its_user(caller: CheckedClient) -> None:
    administrator = Administrator()
    administrator.get("changelist")
    tried = row("shout").pk
    administrator.post("try", tried, **{"arguments-word": "a"})
    assert (CALLS, PendingCall.objects.count()) == ([], 0)
    for count in (1, 2):
        administrator.post("try", tried, **{"arguments-word": "a", "_confirmed": "1"})
        assert ["a"] * count == CALLS
    statuses = PendingCall.objects.values_list("status", "user", "decided_by")
    assert set(statuses) == {("done", administrator.user.pk, administrator.user.pk)}


def test_expired_approval_does_not_block_a_trial(caller: CheckedClient) -> None:
    administrator = Administrator()
    administrator.get("changelist")
    client = CheckedClient(user=administrator.user)
    assert client.call_tool("shout", {"word": "a"})["isError"]
    past = timezone.now() - timedelta(days=1)
    PendingCall.objects.update(status="approved", decided_by=administrator.user, decided_at=past)
    administrator.post("try", row("shout").pk, **{"arguments-word": "a", "_confirmed": "1"})
    assert CALLS == ["a"]


def test_trial_is_pending_under_four_eyes(caller: CheckedClient, settings: Any) -> None:
    administrator = Administrator()
    administrator.get("changelist")
    settings.MCP_BRIDGE = {"FOUR_EYES": True}
    data = {"arguments-word": "a", "_confirmed": "1"}
    assert "The call is pending at" in administrator.post("try", row("shout").pk, **data)
    assert (CALLS, PendingCall.objects.get().status) == ([], "waiting")


def test_trial_with_invalid_arguments_is_not_queued(settings: Any) -> None:
    def whisper(word: Annotated[str, Field(max_length=3)]) -> str:
        """Whisper a word."""
        raise AssertionError

    serve_tools(settings, whisper, confirm=True)
    administrator = Administrator()
    administrator.get("changelist")
    data = {"arguments-word": "hallo", "_confirmed": "1"}
    assert "at most 3" in administrator.post("try", row("whisper").pk, **data)
    assert not PendingCall.objects.exists()


def test_refusal_also_applies_to_a_trial(caller: CheckedClient, pending: PendingCall) -> None:
    administrator = Administrator()
    PendingCall.objects.all().delete()
    CheckedClient(user=administrator.user).call_tool("shout", {"word": "a"})
    PendingCall.objects.get().decide(using="default", status="refused", reason="No.")
    data = {"arguments-word": "a", "_confirmed": "1"}
    assert "Reason: No." in administrator.post("try", row("shout").pk, **data)
    assert CALLS == []
