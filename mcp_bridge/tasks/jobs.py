"""The job that queues run; imported only if there are tasks to queue."""

from __future__ import annotations

from importlib import import_module

from mcp_bridge.conf import conf
from mcp_bridge.tasks.models import PACKAGE, QUEUE
from mcp_bridge.tasks.working import work


@import_module(PACKAGE).task(queue_name=QUEUE, backend=conf.TASK_BACKEND)  # type: ignore[untyped-decorator]
def run_task(key: str) -> None:
    """Run a task (McpTask) by its key."""
    work(key)
