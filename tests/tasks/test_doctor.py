"""The finding of mcp_doctor on the queue of tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from mcp_bridge.confirmation.decisions import approve
from mcp_bridge.models import PendingCall
from mcp_bridge.protocol.tasks import TASKS
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import serve
from tests.management.test_doctor import Doctor
from tests.tasks.world import begun, ended, follower

NONE = "None of the tasks waits for a worker."


def add(a: int) -> int:
    """Add one."""
    return a + 1


@pytest.fixture
def client(settings: Any, user: Any) -> MCPClient:
    serve(settings, add, task=True)
    return follower(user)


def age(key: str, **length: int) -> None:
    """Change a task as if it had been created earlier."""
    moment = timezone.now() - timedelta(**length)
    rows = McpTask.objects.filter(pk=key)
    rows.update(created_at=moment, updated_at=moment)
    rows.filter(queued_at__isnull=False).update(queued_at=moment)


def test_queue_without_tasks_is_fine(client: MCPClient) -> None:
    assert Doctor().found("ok", "tasks", NONE)
    ended(client, "add", a=1)
    assert Doctor().found("ok", "tasks", NONE)


def test_task_may_wait_for_a_minute(client: MCPClient) -> None:
    key = begun(client, "add", a=1)
    age(key, seconds=30)
    assert Doctor().found("ok", "tasks", f"{key} (add) has waited for a worker for 30 s.")


def test_oldest_task_without_a_worker_is_a_warning(client: MCPClient) -> None:
    keys = [begun(client, "add", a=1) for _ in range(2)]
    age(keys[0], minutes=5)
    doctor = Doctor()
    assert doctor.found("warning", "tasks", f"{keys[0]} (add) has waited for a worker for 300 s.")
    assert not doctor.failed
    McpTask.objects.filter(pk=keys[0]).update(started_at=timezone.now(), seen_at=timezone.now())
    assert Doctor().found("ok", "tasks", f"{keys[1]} (add) has waited")
    McpTask.objects.update(expires_at=timezone.now())
    assert Doctor().found("ok", "tasks", NONE)


def test_held_tasks_wait_from_their_approval_on(
    settings: Any, user: Any, django_capture_on_commit_callbacks: Any
) -> None:
    serve(settings, add, confirm=True)
    client = MCPClient(user=user, capabilities={"extensions": {TASKS: {}}})
    age(begun(client, "add", a=1), minutes=5)
    assert Doctor().found("ok", "tasks", NONE)
    [pending] = PendingCall.objects.all()
    with django_capture_on_commit_callbacks(execute=True):
        approve(pending, get_user_model().objects.create_superuser("boss"))
    assert Doctor().found("ok", "tasks", "has waited for a worker for 0 s.")
