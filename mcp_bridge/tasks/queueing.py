"""Give tasks to the queue, and end those whose worker has died."""

from __future__ import annotations

import secrets
from typing import Any

from django.db.models import Q
from django.utils import timezone

from mcp_bridge.protocol.errors import InternalError
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.tasks.models import DEAD, McpTask

logger = get_logger("mcp_bridge.tasks")


def enqueue(task: McpTask) -> None:
    """Give a task to the queue. Raises InternalError if the queue does not take it."""
    try:
        from mcp_bridge.tasks.jobs import run_task

        run_task.enqueue(task.pk)
    except Exception as exception:
        # A backend may raise any exception, such as its broker's.
        error = _failed(task, McpTask.open(), "The call was not run: it could not be queued.")
        logger.exception("A task could not be queued: %s", error)
        raise error from exception


def release(task: McpTask) -> None:
    """Queue a held task, once, unless a person still has to decide on it."""
    held = McpTask.rows().filter(McpTask.released(), pk=task.pk, queued_at=None)
    if held.update(queued_at=timezone.now()):
        try:
            enqueue(task)
        except InternalError:
            # Logged; the task says so.
            return


def resume_held(sender: object, pending: Any, **others: object) -> None:
    """Queue the tasks that have waited for a decision on a pending call."""
    for task in McpTask.rows().filter(pending_call=pending.pk, queued_at=None):
        release(task)


def settle(task: McpTask) -> None:
    """End a task whose worker has died; queue one whose pending call is gone or used."""
    if task.is_dead:
        condition = McpTask.open() & McpTask.dead()
        text = (
            "The worker of the task has ended without a result. Its committed changes remain, and "
            "it is not run again."
        )
        error = _failed(task, condition, text)
        logger.error("No sign of life of a task for %s s: %s", DEAD, error)
        task.refresh_from_db()
    elif task.queued_at is None and not task.is_over:
        release(task)


def _failed(task: McpTask, condition: Q, why: str) -> InternalError:
    """Mark a task as failed if a condition holds, and return the error."""
    reference = secrets.token_hex(6)
    error = InternalError(f"{why} The server's log says more under the reference {reference}.")
    values = {"code": error.code, "message": error.message}
    task.become(task.Status.FAILED, condition, error=values)
    return error
