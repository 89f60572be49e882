"""The job that queues run; imported only where there are tasks to queue."""

from __future__ import annotations

from typing import Any

import django

from mcp_bridge.conf import conf
from mcp_bridge.tasks.working import QUEUE, work

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task


@task(queue_name=QUEUE, backend=conf.TASK_BACKEND)
def run_task(key: str) -> Any:
    """Run a task (McpTask) by its key."""
    work(key)
