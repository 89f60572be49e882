"""The setting of a tool that refuses tasks."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry

from mcp_bridge.models import ToolSetting
from mcp_bridge.protocol.tasks import TASKS
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.testing import MCPClient
from tests.support.administrator import Administrator, row, serve_tools
from tests.tasks.world import begun, ended, follower, run_waiting, state, without_app

pytestmark = [pytest.mark.django_db, pytest.mark.off_lane, pytest.mark.off_stdio]


def add(a: int) -> int:
    """Add one."""
    return a + 1


def administrator(settings: Any, **options: Any) -> Administrator:
    """Return an administrator of a site whose tool ``add`` has these options."""
    ToolSetting.objects.all().delete()
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 0}
    serve_tools(settings, add, **options)
    owner = Administrator()
    owner.get("changelist")
    return owner


def field(owner: Administrator) -> str:
    """Return the checkbox in the tool's form with its help text, "" if there is none."""
    html = owner.get("change", row("add").pk)
    found = re.search(r'<input[^>]*name="never_task".*?class="help".*?</div>', html, re.DOTALL)
    return found[0] if found else ""


@pytest.mark.parametrize("task", [True, lambda call: True])
def test_tool_is_never_a_task_if_set(settings: Any, user: Any, task: Any) -> None:
    owner = administrator(settings, task=task)
    assert "Each call runs inside its request" in field(owner)
    client = follower(user)
    assert ended(client, "add", a=1)["status"] == "completed"
    owner.save("add", enabled="on", never_task="on")
    assert client.call_tool("add", {"a": 1})["structuredContent"] == {"result": 2}
    assert McpTask.objects.count() == 1
    assert LogEntry.objects.get().get_change_message() == "Never as a task: off → on"
    assert "never as a task" in owner.get("changelist")
    owner.save("add", enabled="on")
    assert begun(client, "add", a=1)


def test_accepted_task_runs_though_later_ones_are_refused(settings: Any, user: Any) -> None:
    owner = administrator(settings, task=True)
    client = follower(user)
    key = begun(client, "add", a=1)
    owner.save("add", enabled="on", never_task="on")
    run_waiting()
    assert McpTask.objects.get(pk=key).result["structuredContent"] == {"result": 2}


def test_required_tasks_cannot_be_refused(settings: Any, user: Any) -> None:
    owner = administrator(settings, task="required")
    assert "Required by the code: it runs only as a task." in field(owner)
    assert "disabled" in field(owner)
    owner.save("add", enabled="on", never_task="on")
    assert row("add").never_task is False
    ToolSetting.objects.update(never_task=True)
    assert ended(follower(user), "add", a=1)["status"] == "completed"


def test_other_tools_do_not_have_the_field(settings: Any) -> None:
    owner = administrator(settings)
    assert field(owner) == ""
    owner.save("add", enabled="on", never_task="on")
    assert row("add").never_task is False


def test_field_needs_the_app_of_tasks(settings: Any) -> None:
    owner = administrator(settings, task=True)
    with without_app():
        assert field(owner) == ""
    assert field(owner)


def test_held_calls_are_tasks_all_the_same(settings: Any, user: Any) -> None:
    owner = administrator(settings, task=True, confirm=True)
    owner.save("add", enabled="on", never_task="on")
    client = MCPClient(user=user, capabilities={"extensions": {TASKS: {}}})
    key = begun(client, "add", a=1)
    assert state(client, key)["statusMessage"].startswith("waits for a person's approval")
