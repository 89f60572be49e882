"""
Administrators' decisions are written even while many calls are recorded.

SQLite refuses at once to let a transaction write that has read before, if another connection has
written since; a transaction that begins with a write waits its turn. Under load:
tests/processes/test_busy_admin.py.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from mcp_bridge.models import Generation, PendingCall, ToolSetting
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.testing import MCPClient
from tests.support.administrator import Administrator, address, row, serve_tools
from tests.support.serving import served

pytestmark = pytest.mark.django_db(transaction=True)
WRITE = re.compile(r'(UPDATE|INSERT INTO|DELETE FROM) ["`](\w+)')


def wipe() -> str:
    """Wipe everything."""
    return "wiped"


def spare() -> str:
    """Spare everything."""
    return "spared"


@pytest.fixture(params=[False, True], ids=["plain", "ATOMIC_REQUESTS"])
def administrator(
    request: pytest.FixtureRequest, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Administrator:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", request.param)
    ToolSetting.objects.all().delete()
    serve_tools(settings, wipe, spare, confirm=True)
    found = Administrator()
    found.get("changelist")
    caller = MCPClient(user=get_user_model().objects.create_user("ada"))
    assert caller.call_tool("wipe")["isError"]
    return found


def transactions(queries: CaptureQueriesContext) -> list[list[str]]:
    """Return the statements of each transaction that has written something."""
    found: list[list[str]] = []
    is_open = False
    for query in queries.captured_queries:
        statement = query["sql"]
        if statement.startswith("BEGIN"):
            found.append([])
            is_open = True
        elif statement.startswith(("COMMIT", "ROLLBACK")) and " TO " not in statement:
            is_open = False
        elif is_open and not statement.startswith(("SAVEPOINT", "RELEASE")):
            found[-1].append(statement)
    return [each for each in found if any(map(WRITE.match, each))]


def changes(administrator: Administrator, path: str, **data: Any) -> None:
    """Post, and check that each transaction of the answer begins with a write."""
    with CaptureQueriesContext(connection) as queries:
        response = administrator.browser.post(path, data)
    assert response.status_code == 302, response.content
    written = transactions(queries)
    firsts = [WRITE.match(each[0]) for each in written]
    assert all(firsts), [each[0] for each in written]
    # The administrator's decision comes first; what follows is the session with the message.
    assert firsts[0] is not None
    assert firsts[0][2] == "mcp_bridge_generation"


def test_saving_a_tool_begins_with_a_write(administrator: Administrator) -> None:
    shown = administrator.shown("change", row("wipe").pk)
    page = address("change", row("wipe").pk)
    changes(administrator, page, _save="Save", note="Busy.", _revision=shown)
    assert not row("wipe").enabled


def test_saving_the_list_begins_with_a_write(administrator: Administrator) -> None:
    keys = [row(name).pk for name in ("spare", "wipe")]
    data = {"form-TOTAL_FORMS": 2, "form-INITIAL_FORMS": 2, "_save": "Save"}
    data |= {f"form-{number}-id": key for number, key in enumerate(keys)}
    data |= {f"initial-form-{number}-enabled": "True" for number in range(2)}
    changes(administrator, address("changelist"), **data)
    assert not ToolSetting.objects.filter(enabled=True).exists()


@pytest.mark.parametrize("action", ["switch_off", "switch_on"])
def test_action_begins_with_a_write(administrator: Administrator, action: str) -> None:
    ToolSetting.objects.update(enabled=action == "switch_on")
    ToolSetting.objects.filter(name="spare").update(enabled=action != "switch_on")
    keys = list(ToolSetting.objects.values_list("pk", flat=True))
    changes(administrator, address("changelist"), action=action, _selected_action=keys)
    enabled = ToolSetting.objects.values_list("enabled", flat=True)
    assert set(enabled) == {action == "switch_on"}


def test_approval_begins_with_a_write(administrator: Administrator) -> None:
    ToolSetting.objects.update(fingerprint="another")
    given = fingerprint(canonical_definition(served("wipe")))
    changes(administrator, address("approve", row("wipe").pk), fingerprint=given)
    assert row("wipe").fingerprint == given


def test_deleting_a_removed_tool_begins_with_a_write(administrator: Administrator) -> None:
    gone = ToolSetting.objects.create(name="was_here")
    changes(administrator, address("delete", gone.pk), post="yes")
    assert not ToolSetting.objects.filter(name="was_here").exists()


@pytest.mark.parametrize("decision", ["_approve", "_refuse"])
def test_deciding_a_call_begins_with_a_write(administrator: Administrator, decision: str) -> None:
    pending = PendingCall.objects.get()
    page = reverse("admin:mcp_bridge_pendingcall_change", args=[pending.pk])
    changes(administrator, page, **{decision: "1", "reason": "No."})
    pending.refresh_from_db()
    assert pending.decided_by == administrator.user


def test_deleting_pending_calls_begins_with_a_write(administrator: Administrator) -> None:
    pending = PendingCall.objects.get()
    changes(
        administrator,
        reverse("admin:mcp_bridge_pendingcall_changelist"),
        action="delete_selected",
        _selected_action=pending.pk,
        post="yes",
    )
    assert not PendingCall.objects.exists()


def test_new_tools_are_written_before_they_are_read(
    administrator: Administrator, settings: Any
) -> None:
    ToolSetting.objects.all().delete()
    with CaptureQueriesContext(connection) as queries:
        administrator.get("changelist")
    written = transactions(queries)
    assert all(WRITE.match(each[0]) for each in written)
    assert ToolSetting.objects.count() == 2


def test_generation_is_unchanged_by_reads_and_failed_posts(administrator: Administrator) -> None:
    before = Generation.current()
    key = row("wipe").pk
    administrator.get("changelist")
    assert "Enter a number" in administrator.save("wipe", enabled="on", rate="often")
    administrator.post("approve", key, fingerprint="another")
    administrator.act("switch_on", "wipe")
    assert Generation.current() == before
