"""The job that queues run; imported only if there are tasks to queue."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import django

from mcp_bridge.conf import conf
from mcp_bridge.tasks.working import QUEUE, work

# Built in since Django 6.0.
_tasks = import_module("django.tasks" if django.VERSION >= (6, 0) else "django_tasks")


@_tasks.task(queue_name=QUEUE, backend=conf.TASK_BACKEND)  # type: ignore[untyped-decorator]
def run_task(key: str) -> Any:
    """Run a task (McpTask) by its key."""
    work(key)
