"""The pages of tasks in the admin: their list, one task, and cancelling."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Group
from django.urls import reverse
from django.utils import timezone
from pydantic import SecretStr

from mcp_bridge import Context
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.protocol.tasks import TASKS
from mcp_bridge.records.rows import flush
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import sync_tool_settings
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.testing import MCPClient
from tests.support.administrator import Administrator, serve_tools
from tests.tasks.world import begun, ended, follower, run_waiting, state

VIEW, CHANGE = "view_mcptask", "change_mcptask"
pytestmark = [pytest.mark.django_db, pytest.mark.off_lane, pytest.mark.off_stdio]


def add(a: int) -> int:
    """Add one."""
    return a + 1


def sign(text: str, pin: SecretStr, password: str = "") -> str:
    """Sign a text."""
    Group.objects.create(name=text)
    return text


def fail(context: Context) -> str:
    """Fail after some progress."""
    context.progress(3, 7, "half")
    raise RuntimeError("secret")


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "redacted"}}
    serve_tools(settings, add, sign, fail, task=True)


@pytest.fixture
def client(user: Any) -> MCPClient:
    return follower(user)


def address(page: str, key: str = "") -> str:
    return reverse(f"admin:mcp_bridge_tasks_mcptask_{page}", args=[quote(key)] if key else [])


def shown(owner: Administrator, page: str, key: str = "", **query: Any) -> str:
    """Return the words of a page."""
    response = owner.browser.get(address(page, key), query)
    assert response.status_code == 200
    return words(response.content.decode())


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def cancel(owner: Administrator, key: str) -> Any:
    return owner.browser.post(address("cancel", key), follow=True)


def test_list_shows_what_runs_for_whom(client: MCPClient) -> None:
    owner = Administrator()
    keys = [begun(client, "add", a=1) for _ in range(3)]
    now = timezone.now()
    McpTask.objects.filter(pk=keys[0]).update(
        started_at=now - timedelta(hours=2), seen_at=now, message="3 of 7"
    )
    dead = {"started_at": now, "seen_at": now - timedelta(minutes=9)}
    McpTask.objects.filter(pk=keys[1]).update(**dead)
    text = shown(owner, "changelist")
    assert "add ▸ working ada" in text
    assert "Started: 2 hours ago 3 of 7 Expires: in 59" in text
    assert "▸ working The worker is not responding." in text
    assert "▸ working queued" in text
    assert "3 tasks" in text


def test_list_tells_errors_from_results(client: MCPClient) -> None:
    owner = Administrator()
    ended(client, "add", a=1)
    ended(client, "fail")
    text = shown(owner, "changelist")
    assert "✓ completed ada" in text
    assert "✗ completed with an error as its result ada" in text


def test_list_is_filtered_by_status_and_tool(client: MCPClient) -> None:
    owner = Administrator()
    ended(client, "add", a=1)
    begun(client, "sign", text="a", pin="1234")
    assert "1 task" in shown(owner, "changelist", status__exact="completed")
    assert "1 task" in shown(owner, "changelist", tool="sign")
    assert "0 tasks" in shown(owner, "changelist", tool="sign", status__exact="completed")
    assert "2 tasks" in shown(owner, "changelist", q="ada")


def test_list_does_not_read_results(client: MCPClient, django_assert_max_num_queries: Any) -> None:
    owner = Administrator()
    for _ in range(5):
        ended(client, "add", a=1)
    with django_assert_max_num_queries(8) as queries:
        shown(owner, "changelist")
    assert not any('mcptask"."result"' in each["sql"] for each in queries.captured_queries)


def test_arguments_are_redacted_as_in_records(client: MCPClient, settings: Any) -> None:
    owner = Administrator()
    key = begun(client, "sign", text="plain", pin="1234", password="opensesame")
    text = shown(owner, "change", key)
    assert "text plain pin [redacted] password [redacted]" in text
    assert not {"1234", "opensesame"} & set(re.findall(r"\w+", text))
    settings.MCP_BRIDGE = {"AUDIT": {}}
    text = shown(owner, "change", key)
    assert "plain" not in text
    assert 'not shown (setting MCP_BRIDGE["AUDIT"]["ARGUMENTS"])' in text
    serve_tools(settings, add, task=True)
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "redacted"}}
    assert "plain" not in shown(owner, "change", key)


def test_task_and_its_record_are_linked(client: MCPClient, user: Any) -> None:
    owner = Administrator()
    sync_tool_settings(registry.discovered)
    key = ended(client, "sign", text="a", pin="1")["taskId"]
    flush()
    record = reverse(
        "admin:mcp_bridge_toolcallrecord_change", args=[ToolCallRecord.objects.get().pk]
    )
    tool = reverse(
        "admin:mcp_bridge_toolsetting_change", args=[ToolSetting.objects.get(name="sign").pk]
    )
    person = reverse("admin:auth_user_change", args=[user.pk])
    html = owner.browser.get(address("change", key)).content.decode()
    for link in (record, tool, person):
        assert f'href="{link}"' in html
    assert f'href="{address("change", key)}"' in owner.browser.get(record).content.decode()


def test_links_need_their_own_permissions(client: MCPClient) -> None:
    key = ended(client, "sign", text="a", pin="1")["taskId"]
    viewer = Administrator(VIEW)
    html = viewer.browser.get(address("change", key)).content.decode()
    assert "toolcallrecord" not in html
    assert "toolsetting" not in html
    assert "/auth/user/" not in html


def test_held_task_links_to_its_pending_call(settings: Any, user: Any) -> None:
    serve_tools(settings, sign, confirm=True, task=True)
    client = MCPClient(user=user, capabilities={"extensions": {TASKS: {}}})
    owner = Administrator()
    key = begun(client, "sign", text="a", pin="1")
    link = reverse("admin:mcp_bridge_pendingcall_change", args=[PendingCall.objects.get().pk])
    assert f'href="{link}"' in owner.browser.get(address("change", key)).content.decode()
    assert "queued" not in shown(owner, "changelist")


def test_internal_error_is_shown_without_its_cause(client: MCPClient) -> None:
    owner = Administrator()
    key = ended(client, "fail")["taskId"]
    text = shown(owner, "change", key)
    assert "Message: 3 of 7: half" in text
    assert "secret" not in text
    McpTask.objects.update(status="failed", error={"code": -32603, "message": "Reference 12."})
    assert "Error: Reference 12." in shown(owner, "change", key)
    McpTask.objects.update(error={"code": -32602, "message": "No zebra."})
    assert "zebra" not in shown(owner, "change", key)


def test_button_cancels_a_task_and_logs_it(client: MCPClient) -> None:
    owner = Administrator()
    key = begun(client, "sign", text="a", pin="1")
    assert "Cancel the task" in shown(owner, "change", key)
    assert "1 task was cancelled." in words(cancel(owner, key).content.decode())
    run_waiting()
    assert state(client, key)["status"] == "cancelled"
    assert not Group.objects.exists()
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.user) == (key, owner.user)
    assert "Changed status." in shown(owner, "history", key)


def test_finished_task_is_not_cancelled(client: MCPClient) -> None:
    owner = Administrator()
    key = ended(client, "add", a=1)["taskId"]
    assert "Cancel the task" not in shown(owner, "change", key)
    assert "Nothing was cancelled" in words(cancel(owner, key).content.decode())
    assert state(client, key)["status"] == "completed"
    assert not LogEntry.objects.exists()


def test_action_cancels_the_selected_tasks(client: MCPClient) -> None:
    owner = Administrator()
    keys = [begun(client, "add", a=1) for _ in range(3)]
    data = {"action": "cancel", "_selected_action": keys[:2]}
    html = owner.browser.post(address("changelist"), data, follow=True).content.decode()
    assert "2 tasks were cancelled." in words(html)
    states = [state(client, key)["status"] for key in keys]
    assert states == ["cancelled", "cancelled", "working"]
    assert LogEntry.objects.count() == 2


def test_viewers_cannot_cancel(client: MCPClient) -> None:
    viewer = Administrator(VIEW)
    key = begun(client, "add", a=1)
    assert "requires “Can change task”" in shown(viewer, "change", key)
    assert cancel(viewer, key).status_code == 403
    data = {"action": "cancel", "_selected_action": [key]}
    viewer.browser.post(address("changelist"), data)
    assert state(client, key)["status"] == "working"
    assert viewer.browser.get(address("cancel", key)).status_code == 405


def test_tasks_are_neither_added_changed_nor_deleted(client: MCPClient) -> None:
    owner = Administrator()
    key = begun(client, "add", a=1)
    assert owner.browser.get(address("add")).status_code == 403
    assert owner.browser.post(address("change", key), {"message": "x"}).status_code == 403
    assert owner.browser.post(address("delete", key), {"post": "yes"}).status_code == 403
    data = {"action": "delete_selected", "_selected_action": [key], "post": "yes"}
    owner.browser.post(address("changelist"), data)
    assert McpTask.objects.get().message == ""
    assert admin.site.is_registered(McpTask)
