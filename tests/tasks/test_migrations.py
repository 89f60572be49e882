"""The migrations of tasks, forwards and back, on a site that has been in use."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from mcp_bridge.models import PendingCall, ToolSetting
from mcp_bridge.protocol.tasks import TASKS
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import serve
from tests.tasks.world import begun

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.off_tasks]


def add(a: int) -> int:
    """Add one."""
    return a + 1


def migrate(label: str, *name: str) -> None:
    call_command("migrate", label, *name, verbosity=0)


def latest() -> None:
    for label in ("mcp_bridge", "mcp_bridge_tasks"):
        migrate(label)


def test_site_without_tasks_is_upgraded(settings: Any, user: Any) -> None:
    serve(settings, add, confirm=True)
    assert MCPClient(user=user).call_tool("add", {"a": 1})["isError"]
    ToolSetting.objects.update_or_create(name="add", defaults={"enabled": False})
    try:
        migrate("mcp_bridge_tasks", "zero")
        assert McpTask._meta.db_table not in connection.introspection.table_names()
        migrate("mcp_bridge", "0012")
    finally:
        latest()
    setting = ToolSetting.objects.get(name="add")
    assert (setting.enabled, setting.never_task) == (False, False)
    assert PendingCall.objects.get().status == "waiting"


def test_tasks_go_and_their_held_calls_stay(settings: Any, user: Any) -> None:
    serve(settings, add, confirm=True)
    client = MCPClient(user=user, capabilities={"extensions": {TASKS: {}}})
    begun(client, "add", a=1)
    try:
        migrate("mcp_bridge_tasks", "zero")
    finally:
        latest()
    assert PendingCall.objects.get().status == "waiting"
    assert not McpTask.objects.exists()
    begun(client, "add", a=1)
    assert McpTask.objects.get().pending_call == PendingCall.objects.get()
