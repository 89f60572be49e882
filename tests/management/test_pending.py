"""``manage.py mcp_pending``: the approval queue without the admin."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command

from mcp_bridge.models import PendingCall
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.administrator import serve_tools
from tests.support.confirming import RUNS, wipe
from tests.support.serving import set_tool

ARGUMENTS = {"name": "all\x1b[2J\u202e", "count": 2}


def person(name: str, *codenames: str, **values: Any) -> Any:
    user = get_user_model().objects.create_user(name, **values)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return user


@pytest.fixture
def decider() -> Any:
    return person("grace", "change_pendingcall")


@pytest.fixture
def caller(user: Any, settings: Any) -> CheckedClient:
    RUNS.clear()
    serve(settings, wipe, confirm=True)
    return CheckedClient(user=user)


@pytest.fixture
def number(caller: CheckedClient) -> str:
    assert caller.call_tool("wipe", ARGUMENTS)["isError"]
    return str(PendingCall.objects.get().pk)


def run(*arguments: str) -> str:
    """Return the output and errors of the command."""
    out = io.StringIO()
    call_command("mcp_pending", *arguments, stdout=out, stderr=out, no_color=True)
    return out.getvalue()


def fails(*arguments: str) -> str:
    """Return the error of one line with which the command ends; nothing is decided."""
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    assert set(PendingCall.objects.values_list("decided_at", flat=True)) <= {None}
    assert "\n" not in str(raised.value)
    return str(raised.value)


def as_json(*arguments: str) -> Any:
    out = io.StringIO()
    call_command("mcp_pending", *arguments, "--json", stdout=out, stderr=io.StringIO())
    return json.loads(out.getvalue())


def test_message_to_the_model_names_the_command(
    caller: CheckedClient, number: str, decider: Any
) -> None:
    text = text_of(caller.call_tool("wipe", ARGUMENTS))
    assert f"`manage.py mcp_pending approve {number} --user NAME`" in text
    shown = run("approve", number, "--user", "grace")
    assert "The call was approved. It runs now if it is a task that was not cancelled" in shown
    assert caller.call_tool("wipe", ARGUMENTS)["isError"] is False
    assert [(ARGUMENTS["name"], 2)] == RUNS
    row = PendingCall.objects.get()
    assert (row.decided_by, row.status) == (decider, "done")
    (entry,) = LogEntry.objects.all()
    assert (entry.user, entry.get_change_message()) == (decider, "Approved.")


def test_address_of_a_call_by_command_is_a_path(user: Any, settings: Any) -> None:
    serve_tools(settings, wipe, confirm=True)
    out = io.StringIO()
    with suppress(CommandError):
        call_command("mcp_call", "wipe", json.dumps(ARGUMENTS), user="ada", stdout=out, stderr=out)
    address = f"/admin/mcp_bridge/pendingcall/{PendingCall.objects.get().pk}/change/"
    assert f"The call is pending at {address}." in out.getvalue()


def test_pending_calls_are_listed_with_their_details(number: str) -> None:
    for arguments in ([], ["list"], ["list", number]):
        shown = run(*arguments)
        assert shown.startswith(f"{number}  wipe\n    asked by ada 0 minutes ago, with the client")
        assert "mcp_bridge.testing\n    Wipe something.\n    {\n" in shown
        assert '"name": "all\\u001b[2J\\u202e",\n' in shown
        assert all(each.isprintable() or each == "\n" for each in shown)
    assert "1 call pending." in run()
    (call,) = as_json()
    assert as_json("list", number) == call
    assert (call["number"], call["tool"], call["arguments"]) == (int(number), "wipe", ARGUMENTS)
    assert (call["user"], call["status"], call["obstacle"]) == ("ada", "waiting", "")


def test_decided_calls_are_shown_only_by_number(number: str, decider: Any) -> None:
    run("refuse", number, "--user", "grace", "--reason", "Not on a\nFriday.")
    assert (run(), as_json()) == ("0 calls pending.\n", [])
    shown = run("list", number)
    assert "refused (by grace, 20" in shown
    assert "): Not on a\\nFriday." in shown
    assert as_json("list", number)["decided_by"] == "grace"
    with pytest.raises(CommandError, match=rf"Call {number} is not pending: refused \(by grace"):
        run("approve", number, "--user", "grace")


def test_refusal_requires_and_shows_a_reason(
    caller: CheckedClient, number: str, decider: Any
) -> None:
    assert "Enter a reason for the refusal" in fails("refuse", number, "--user", "grace")
    assert "Enter a reason for the refusal" in fails(
        "refuse", number, "--user", "grace", "--reason", " "
    )
    call = as_json("refuse", number, "--user", "grace", "--reason", "Not today.")
    assert (call["status"], call["reason"]) == ("refused", "Not today.")
    assert "Reason: Not today. Do not" in text_of(caller.call_tool("wipe", ARGUMENTS))
    assert RUNS == []


def test_deciding_requires_a_permitted_user(number: str) -> None:
    person("viewer", "view_pendingcall")
    person("gone", "change_pendingcall", is_active=False)
    for action in ("approve", "refuse"):
        assert "--user is required" in fails(action, number, "--reason", "x")
        assert "Unknown user 'nobody'" in fails(action, number, "--user", "nobody")
        for name in ("viewer", "gone"):
            error = fails(action, number, "--user", name, "--reason", "x")
            assert f"{name} may not decide: this requires mcp_bridge." in error


def test_own_call_requires_another_person_with_four_eyes(
    caller: CheckedClient, number: str, user: Any, settings: Any
) -> None:
    person("grace", "change_pendingcall")
    user.user_permissions.set(Permission.objects.filter(codename="change_pendingcall"))
    settings.MCP_BRIDGE = {"FOUR_EYES": True}
    assert "You cannot approve your own call" in fails("approve", number, "--user", "ada")
    assert "was approved" in run("approve", number, "--user", "grace")
    settings.MCP_BRIDGE = {}
    caller.call_tool("wipe", {"name": "own"})
    own = str(PendingCall.objects.get(status="waiting").pk)
    assert "was approved" in run("approve", own, "--user", "ada")


@pytest.mark.parametrize("change", [{"enabled": False}, {"description": "Louder."}])
def test_changed_calls_are_not_approved(change: dict[str, Any], number: str, decider: Any) -> None:
    set_tool("wipe", **change)
    assert "This call cannot be approved" in run()
    assert run().endswith("0 calls pending. 1 can no longer be approved.\n")
    assert "This call cannot be approved" in as_json()[0]["obstacle"]
    assert "This call cannot be approved" in fails("approve", number, "--user", "grace")
    assert "was refused" in run("refuse", number, "--user", "grace", "--reason", "Out of date.")


def test_invalid_input_is_a_one_line_error(number: str) -> None:
    assert "The number of a call is required" in fails("approve", "--user", "ada")
    assert "Unknown call 999999" in fails("approve", "999999", "--user", "ada")
    assert "invalid int value" in fails("approve", "x")
    assert "invalid choice" in fails("delete", number)


def test_command_works_without_the_admin(number: str, decider: Any, settings: Any) -> None:
    installed = settings.INSTALLED_APPS
    settings.INSTALLED_APPS = [each for each in installed if "admin" not in each.lower()]
    assert "was approved" in run("approve", number, "--user", "grace")
    assert PendingCall.objects.get().decided_by == decider
    assert not LogEntry.objects.exists()
