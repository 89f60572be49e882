"""manage.py mcp_tasks, and what mcp_audit prune does with tasks."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from mcp_bridge import ToolError
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import serve
from tests.tasks.world import begun, ended, follower, run_waiting, state


def add(a: int) -> int:
    """Add one."""
    return a + 1


def fail() -> None:
    """Fail."""
    raise ToolError("no")


@pytest.fixture
def client(settings: Any, user: Any) -> MCPClient:
    serve(settings, add, fail, task=True)
    return follower(user)


def run(*arguments: str) -> str:
    """Return the output of a command."""
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def expire(key: str) -> None:
    McpTask.objects.filter(pk=key).update(expires_at=timezone.now() - timedelta(seconds=1))


def kill(key: str) -> None:
    """Change a task as if its worker had died ten minutes ago."""
    moment = timezone.now() - timedelta(minutes=10)
    McpTask.objects.filter(pk=key).update(started_at=moment, seen_at=moment)


def test_list_has_a_line_for_each_task(client: MCPClient) -> None:
    done = ended(client, "add", a=1)["taskId"]
    keys = [begun(client, "add", a=1), done, begun(client, "add", a=1)]
    McpTask.objects.filter(pk=keys[0]).update(message="3 of 7\x1b[2J", started_at=timezone.now())
    expire(keys[2])
    lines = {line.split()[0]: line for line in run("mcp_tasks", "list").splitlines()}
    assert set(lines) == set(keys)
    assert " working " in lines[keys[0]]
    assert " ada " in lines[keys[0]]
    assert lines[keys[0]].endswith("add  3 of 7\\x1b[2J")
    assert " completed " in lines[keys[1]]
    assert " expired           not started " in lines[keys[2]]


def test_list_tells_errors_from_results(client: MCPClient) -> None:
    ended(client, "fail")
    assert " completed (error) " in run("mcp_tasks", "list")


def test_cancelled_task_does_not_run(client: MCPClient) -> None:
    key = begun(client, "add", a=1)
    assert "(add) was cancelled." in run("mcp_tasks", "cancel", key)
    run_waiting()
    assert state(client, key)["status"] == "cancelled"
    assert "was over already: cancelled." in run("mcp_tasks", "cancel", key)
    expire(other := begun(client, "add", a=1))
    assert "was over already: expired." in run("mcp_tasks", "cancel", other)
    with pytest.raises(CommandError, match="Unknown task 'x': see mcp_tasks list."):
        run("mcp_tasks", "cancel", "x")


def test_expired_tasks_are_deleted(client: MCPClient) -> None:
    keys = [begun(client, "add", a=1) for _ in range(3)]
    for key in keys[:2]:
        expire(key)
    out = run("mcp_tasks", "expire")
    assert out == "Expired and deleted: 2. Failed with their worker: 0.\n"
    assert McpTask.objects.get().pk == keys[2]


def test_tasks_of_dead_workers_fail(client: MCPClient, caplog: Any) -> None:
    keys = [begun(client, "add", a=1) for _ in range(3)]
    kill(keys[0])
    kill(keys[1])
    expire(keys[1])
    out = run("mcp_tasks", "expire")
    assert out == "Expired and deleted: 1. Failed with their worker: 1.\n"
    found = state(client, keys[0])
    assert (found["status"], found["error"]["code"]) == ("failed", -32603)
    assert state(client, keys[2])["status"] == "working"


def test_lost_task_is_queued_again(client: MCPClient) -> None:
    key = begun(client, "add", a=1)
    moment = timezone.now() - timedelta(minutes=10)
    McpTask.objects.filter(pk=key).update(queued_at=moment, updated_at=moment)
    run("mcp_tasks", "expire")
    assert McpTask.objects.get().queued_at > moment
    assert state(client, key)["status"] == "working"


def test_prune_deletes_expired_tasks(client: MCPClient) -> None:
    keys = [begun(client, "add", a=1) for _ in range(3)]
    for key in keys[:2]:
        expire(key)
    out = run("mcp_audit", "prune", "--older-than", "90d")
    assert out.endswith("deleted, and 0 used answers and 2 tasks that have expired.\n")
    assert McpTask.objects.get().pk == keys[2]
