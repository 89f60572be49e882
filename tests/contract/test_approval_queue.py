"""Calls that wait in the approval queue, because their client does not support forms."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.db import OperationalError, connection
from django.utils import timezone

from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting, UsedState
from mcp_bridge.protocol import LATEST
from mcp_bridge.protocol.requests import CLIENT_INFO
from mcp_bridge.records.rows import flush
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.administrator import serve_tools
from tests.support.confirming import RUNS, YES, call, refused, state_of, wipe
from tests.support.profiling import calls
from tests.support.serving import set_tool

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("wiping"),
    # Such a call is a task that waits (tests/tasks/test_held.py).
    pytest.mark.off_tasks,
]
Status = PendingCall.Status


@pytest.fixture(params=["no form", "address only", "2025-11-25", "2025-03-26"])
def mute(request: Any, user: Any) -> CheckedClient:
    if request.param.startswith("20"):
        return CheckedClient(user=user, revision=request.param)
    url = {"elicitation": {"url": {}}}
    return CheckedClient(user=user, capabilities=url if request.param[0] == "a" else {})


def waits(client: CheckedClient, **params: Any) -> PendingCall:
    """Return the row of a call that waits."""
    result = call(client, **params)
    assert result["isError"]
    assert "requires a person's approval" in text_of(result)
    return PendingCall.objects.get(key__isnull=False, status=Status.WAITING)


def ago(seconds: float) -> datetime:
    return timezone.now() - timedelta(seconds=seconds)


def decided(held: PendingCall, status: str = Status.APPROVED, **values: Any) -> None:
    assert held.decide(using="default", status=status, **values)


def test_approved_call_runs_once(mute: CheckedClient, user: Any) -> None:
    held = waits(mute)
    text = text_of(call(mute))
    assert "within 10 minutes of the approval" in text
    assert (held.tool, held.user, json.loads(held.arguments)) == ("wipe", user, {"name": "all"})
    assert waits(mute, inputResponses=YES) == held
    decided(held)
    if mute.revision is LATEST:
        refused(mute, "forged")
    assert not call(mute)["isError"]
    assert RUNS == [("all", 1)]
    assert waits(mute) != held
    held.refresh_from_db()
    assert (held.status, held.key) == (Status.DONE, None)


@pytest.mark.parametrize(
    ("seconds", "within"), [(60, "60 seconds"), (120, "2 minutes"), (0.5, "0.5 seconds")]
)
def test_caller_is_told_how_long_an_approval_lasts(
    seconds: float, within: str, user: Any, settings: Any
) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "CONFIRMATION_MAX_AGE": seconds}
    text = text_of(call(CheckedClient(user=user)))
    assert "on the server by someone with permission. Then repeat" in text
    assert f"within {within} of the approval" in text


@pytest.mark.parametrize(("length", "kept"), [(120, 120), (121, 120)])
def test_long_client_names_are_truncated(length: int, kept: int, user: Any) -> None:
    info = {CLIENT_INFO: {"name": "x" * length, "version": "1"}}
    held = waits(CheckedClient(user=user), _meta=info)
    assert held.client == "x" * kept + "…" * (length > kept)


@pytest.mark.off_stdio
def test_address_is_that_of_the_page(mute: CheckedClient, settings: Any) -> None:
    text = text_of(call(mute))
    number = PendingCall.objects.get().pk
    assert f"The call is pending as number {number}. Ask the user" in text
    assert f"`manage.py mcp_pending approve {number} --user NAME` on the server" in text
    assert "there" not in text
    serve_tools(settings, wipe, confirm=True, title="Wipe")
    (address,) = re.findall(r"http://testserver(/\S+/change/)\.", text_of(call(mute)))
    assert str(PendingCall.objects.latest("pk").pk) in address


def test_approval_is_bound_to_user_tool_and_call(mute: CheckedClient) -> None:
    decided(waits(mute))
    bob = CheckedClient(user=get_user_model().objects.create_user("bob"))
    calls = [(bob, {}), (mute, {"name": "other"}), (mute, {"arguments": {"name": "one"}})]
    for client, params in calls:
        assert call(client, **params)["isError"]
    assert RUNS == []
    assert PendingCall.objects.filter(status=Status.WAITING).count() == 3


def test_decision_expires(modern: CheckedClient) -> None:
    for status in (Status.APPROVED, Status.REFUSED):
        held = waits(modern)
        decided(held, status)
        PendingCall.objects.filter(pk=held.pk).update(decided_at=ago(601))
        again = waits(modern)
        assert (again != held, RUNS) == (True, [])
        # A second before, it counts.
        decided(again, status)
        PendingCall.objects.filter(pk=again.pk).update(decided_at=ago(598))
        assert call(modern)["isError"] is (status == Status.REFUSED)
        RUNS.clear()
        PendingCall.objects.all().delete()


def test_approval_is_void_if_the_definition_changes(mute: CheckedClient) -> None:
    decided(waits(mute))
    set_tool("wipe", description="Wipes more.")
    waits(mute)
    assert RUNS == []


def test_approval_is_void_if_the_parameters_change(mute: CheckedClient, settings: Any) -> None:
    def changed(name: str, deeply: bool = True) -> str:
        """Wipe something."""
        raise AssertionError

    decided(waits(mute))
    changed.__name__ = "wipe"
    serve(settings, changed, confirm=True, title="Wipe")
    assert "Unknown tool" in refused(mute, None)
    # The change is approved.
    ToolSetting.objects.all().delete()
    waits(mute)


def test_approved_call_is_refused_after_access_is_lost(user: Any, settings: Any) -> None:
    serve(settings, wipe, confirm=True, permissions="auth.add_group")
    permission = Permission.objects.get(codename="add_group")
    user.user_permissions.add(permission)
    again = get_user_model().objects.get
    decided(waits(CheckedClient(user=again(pk=user.pk))))
    user.user_permissions.clear()
    assert "Unknown tool" in refused(CheckedClient(user=again(pk=user.pk)), None)
    user.user_permissions.add(permission)
    set_tool("wipe", enabled=False)
    assert "Unknown tool" in refused(CheckedClient(user=again(pk=user.pk)), None)
    assert PendingCall.objects.get().status == Status.APPROVED


def test_repeated_pending_call_is_one_row(mute: CheckedClient) -> None:
    assert len({waits(mute).pk for _ in range(3)}) == PendingCall.objects.count() == 1
    waits(mute, arguments={"name": "all"}, _meta={"progressToken": 1})
    assert PendingCall.objects.count() == 1


def test_refusal_is_returned_with_its_reason(mute: CheckedClient) -> None:
    decided(waits(mute), Status.REFUSED, reason="Not on a Friday.")
    for _ in range(2):
        assert "Reason: Not on a Friday. Do not" in text_of(call(mute))
    for reason, end in (("Not today", "."), ("Why?", ""), ("Never!", ""), ("So …", "")):
        PendingCall.objects.update(reason=reason)
        assert f"Reason: {reason}{end} Do not repeat it" in text_of(call(mute))
    PendingCall.objects.update(reason="")
    assert "this call of wipe. Do not repeat it" in text_of(call(mute))
    assert RUNS == []


def test_long_arguments_are_queued_and_longer_ones_refused(
    asker: CheckedClient,
) -> None:
    assert waits(asker, arguments={"name": "x" * 5_000})
    assert "characters" in text_of(call(asker, arguments={"name": "x" * 70_000}))
    assert PendingCall.objects.count() == 1


def test_confirming_in_the_form_settles_the_queued_call(asker: CheckedClient, user: Any) -> None:
    held = waits(CheckedClient(user=user))
    assert not call(asker, inputResponses=YES, requestState=state_of(asker))["isError"]
    held.refresh_from_db()
    assert (held.status, held.decided_by) == (Status.DONE, user)
    assert held.decided_at == held.used_at is not None


@pytest.mark.django_db(transaction=True)
def test_approval_is_restored_if_recording_fails(modern: CheckedClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"REQUIRED": True}}
    done = waits(modern, arguments={"name": "done"})
    decided(done)
    assert not call(modern, arguments={"name": "done"})["isError"]
    held = waits(modern)
    decided(held)

    def refuse(execute: Any, sql: str, *args: Any) -> Any:
        """No record can be written."""
        if ToolCallRecord._meta.db_table in sql and sql.startswith("INSERT"):
            raise OperationalError("disk full")
        return execute(sql, *args)

    with connection.execute_wrapper(refuse):
        assert "it could not be written" in text_of(call(modern))
    held.refresh_from_db()
    assert (held.status, held.used_at) == (Status.APPROVED, None)
    # Nothing else is restored.
    done.refresh_from_db()
    assert (done.status, done.key) == (Status.DONE, None)
    assert RUNS == [("done", 1)]
    assert not call(modern)["isError"]
    assert RUNS == [("done", 1), ("all", 1)]


def test_confirming_in_the_form_leaves_other_queued_calls(asker: CheckedClient, user: Any) -> None:
    held = waits(CheckedClient(user=user))
    told = text_of(call(CheckedClient(user=user), arguments={"name": "other"}))
    assert "The call is pending" in told
    other = PendingCall.objects.exclude(pk=held.pk).get()
    call(asker, inputResponses=YES, requestState=state_of(asker))
    other.refresh_from_db()
    assert other.status == Status.WAITING


def test_queue_is_limited_to_100_calls_per_user(modern: CheckedClient) -> None:
    held = waits(modern)
    values = {"tool": "wipe", "fingerprint": held.fingerprint, "user": held.user, "arguments": "{}"}
    PendingCall.objects.bulk_create(PendingCall(key=f"{number}", **values) for number in range(99))
    assert "are already pending" in text_of(call(modern, arguments={"name": "more"}))
    assert "The call is pending" in text_of(call(modern))
    assert PendingCall.objects.count() == 100
    # Calls that can no longer be approved do not count.
    PendingCall.objects.filter(key="5").update(fingerprint="changed")
    assert "The call is pending" in text_of(call(modern, arguments={"name": "more"}))
    # Neither do those of another user.
    PendingCall.objects.filter(key="6").update(user=get_user_model().objects.create_user("bob"))
    assert "The call is pending" in text_of(call(modern, arguments={"name": "most"}))
    assert "are already pending" in text_of(call(modern, arguments={"name": "too many"}))


def test_only_settled_calls_are_pruned(modern: CheckedClient, capsys: Any) -> None:
    for name in "abcdefg":
        call(modern, arguments={"name": name})
    held = {json.loads(each.arguments)["name"]: each for each in PendingCall.objects.all()}
    old, just, now = ago(91 * 86_400), ago(540), ago(0)
    decisions = {
        **{"b": (Status.APPROVED, now), "c": (Status.APPROVED, just), "d": (Status.APPROVED, old)},
        **{"e": (Status.REFUSED, just), "f": (Status.REFUSED, old), "g": (Status.DONE, old)},
    }
    for name, (status, decided_at) in decisions.items():
        decided(held[name], status, reason="No.")
        PendingCall.objects.filter(pk=held[name].pk).update(decided_at=decided_at)
    PendingCall.objects.update(asked_at=old)
    used = {10: "fresh", 599: "good for now", 5_990: "kept", 6_010: "over", 91 * 86_400: "old"}
    for seconds, nonce in used.items():
        UsedState.objects.create(nonce=nonce, used_at=ago(seconds))
    left = {"90d": set("abce"), "0s": set("abce")}
    for age, kept in left.items():
        call_command("mcp_audit", "prune", older_than=age)
        rows = PendingCall.objects.values_list("arguments", flat=True)
        assert {json.loads(row)["name"] for row in rows} == kept
        assert set(UsedState.objects.values_list("nonce", flat=True)) == {
            *("fresh", "good for now", "kept")
        }
    assert "3 decided calls" in capsys.readouterr().out
    # Approved calls run, refused ones do not, and pending ones stay pending.
    results = {name: call(modern, arguments={"name": name}) for name in "bcea"}
    assert [result["isError"] for result in results.values()] == [False, False, True, True]
    assert "Reason: No." in text_of(results["e"])
    assert PendingCall.objects.get(status=Status.WAITING) == held["a"]


def test_pruned_answer_cannot_be_reused(asker: CheckedClient) -> None:
    state = state_of(asker)
    assert not call(asker, inputResponses=YES, requestState=state)["isError"]
    call_command("mcp_audit", "prune", older_than="0s")
    assert "been used already" in refused(asker, state)


def test_approvals_in_queue_and_form_count_once(
    mute: CheckedClient, asker: CheckedClient, user: Any
) -> None:
    call(mute)
    state = state_of(asker)
    decided(PendingCall.objects.get(), decided_by=user)
    assert call(asker, inputResponses=YES, requestState=state)["isError"] is False
    assert call(mute)["isError"] is True
    assert len(RUNS) == 1


def test_unrecordable_call_keeps_its_approval(
    mute: CheckedClient, asker: CheckedClient, user: Any, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"REQUIRED": True}}
    state = state_of(asker, arguments={"name": "asked"})
    call(mute)
    decided(PendingCall.objects.get(), decided_by=user)
    with connection.cursor() as cursor:
        cursor.execute('ALTER TABLE "mcp_bridge_toolcallrecord" RENAME TO "elsewhere"')
    assert "Retry the same call later" in text_of(call(mute))
    # A confirmation in a form is for one attempt.
    answer = {"arguments": {"name": "asked"}, "inputResponses": YES, "requestState": state}
    assert "Retry the same call later" in text_of(call(asker, **answer))
    assert RUNS == []
    with connection.cursor() as cursor:
        cursor.execute('ALTER TABLE "elsewhere" RENAME TO "mcp_bridge_toolcallrecord"')
    assert "been used already" in refused(asker, state, arguments={"name": "asked"})
    assert call(mute)["isError"] is False
    assert call(mute)["isError"] is True
    assert len(RUNS) == 1


def test_oversized_arguments_are_not_rendered(mute: CheckedClient, settings: Any) -> None:
    def store(values: list[Any]) -> None:
        """Store values."""

    serve(settings, store, confirm=True)
    counts = []
    for more in (0, 30_000):
        values = [[]] * (40_000 + more)
        count, result = calls(
            lambda values=values: call(mute, "store", arguments={"values": values})
        )
        assert "exceed the limit of 65536 characters for review" in text_of(result)
        counts.append(count)
    # The remaining cost of each value is that of parsing it.
    assert counts[1] - counts[0] < 3 * 30_000
    assert not PendingCall.objects.exists()
    flush()
    assert set(ToolCallRecord.objects.values_list("error_code", flat=True)) == {"unconfirmed"}
