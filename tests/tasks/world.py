"""Clients that follow tasks, and a worker in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.core.management import call_command
from django.test import override_settings

from mcp_bridge.protocol.tasks import TASKS
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.tasks.working import work
from mcp_bridge.testing import MCPClient

CAPABILITIES = {"extensions": {TASKS: {}}, "elicitation": {}}


@contextmanager
def without_app() -> Iterator[None]:
    """Run a block as on a site without the app of tasks."""
    registered, site = admin.site._registry, admin.site
    apps = [each for each in settings.INSTALLED_APPS if each != "mcp_bridge.tasks"]
    site._registry = {model: each for model, each in registered.items() if model is not McpTask}
    try:
        with override_settings(INSTALLED_APPS=apps):
            yield
    finally:
        # Django binds another one while it looks for the admin's modules.
        site._registry = registered


def follower(user: Any, **options: Any) -> MCPClient:
    """Return a client that can follow tasks."""
    return MCPClient(user=user, capabilities=CAPABILITIES, **options)


def begun(client: MCPClient, tool: str, /, **arguments: Any) -> str:
    """Call a tool, and return the id of the task that it becomes."""
    result = client.call_tool(tool, arguments)
    assert result["resultType"] == "task", result
    assert result["status"] == "working"
    assert not {"result", "error", "inputRequests", "requestState", "task"} & result.keys()
    key: str = result["taskId"]
    return key


def run_waiting() -> None:
    """Run the tasks that wait for a worker, in this process."""
    for key in (
        McpTask.rows().filter(status="working", started_at=None).values_list("pk", flat=True)
    ):
        work(key)


def run_queue() -> None:
    """Run what is in the queue with a worker of the backend, in this process."""
    options = {"queue_name": "mcp", "batch": True, "startup_delay": False, "verbosity": 0}
    call_command("db_worker", **options)


def state(client: MCPClient, key: str) -> dict[str, Any]:
    """Return a task as its client gets it."""
    found = client.post("tasks/get", taskId=key)
    assert found["resultType"] == "complete"
    assert found["taskId"] == key
    return found


def ended(client: MCPClient, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool as a task, run it, and return the task."""
    key = begun(client, tool, **arguments)
    run_waiting()
    return state(client, key)
