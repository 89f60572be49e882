"""The record of a task's run."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.records.rows import flush
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.testing.serving import serve
from tests.tasks.world import ended, follower


def add(a: int) -> int:
    """Add one."""
    return a + 1


async def later(a: int) -> int:
    """Add one, in a coroutine."""
    return a + 1


@pytest.mark.parametrize("name", ["add", "later"])
@pytest.mark.parametrize("read_only", [True, False])
def test_task_has_the_key_of_its_record(
    settings: Any, user: Any, name: str, read_only: bool
) -> None:
    serve(settings, add, later, task=True, read_only=read_only)
    key = ended(follower(user), name, a=1)["taskId"]
    flush()
    assert McpTask.objects.get(pk=key).record == ToolCallRecord.objects.get().pk


def test_site_without_records_runs_tasks(settings: Any, user: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": None}
    serve(settings, add, task=True)
    found = ended(follower(user), "add", a=1)
    assert found["status"] == "completed"
    assert McpTask.objects.get().record is None
