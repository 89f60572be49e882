"""Give tasks to the queue, and end those whose worker has died."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any

from django.db.models import Q
from django.utils import timezone

from mcp_bridge.protocol.errors import InternalError
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.registry.registry import registry
from mcp_bridge.tasks.models import DEAD, McpTask

logger = get_logger("mcp_bridge.tasks")


def enqueue(task: McpTask) -> None:
    """Give a task to the queue. Raises InternalError if the queue does not take it."""
    try:
        from mcp_bridge.tasks.jobs import run_task

        run_task.enqueue(task.pk)
    except Exception as exception:
        # A backend may raise any exception, such as its broker's.
        error = _failed(task, McpTask.open(), "The task could not be queued.")
        logger.exception("%s could not be queued: %s", task, error)
        raise error from exception


def release(task: McpTask) -> None:
    """Queue a held or lost task, once."""
    rows, now = McpTask.rows().filter(McpTask.open(), pk=task.pk), timezone.now()
    # The message of a held task was that it waits for a person.
    news: Any = {} if task.queued_at else {"message": "", "updated_at": now}
    if rows.filter(queued_at=task.queued_at).update(queued_at=now, **news):
        with suppress(InternalError):
            # Logged; the task says so.
            enqueue(task)


def resume_held(sender: object, pending: Any, **others: object) -> None:
    """Queue the tasks that have waited for a decision on a pending call."""
    for task in McpTask.rows().filter(pending_call=pending.pk, queued_at=None):
        release(task)


def settle(task: McpTask) -> None:
    """End a task of a dead worker; queue a lost one, or one whose pending call is gone or used."""
    if task.is_dead:
        text = "The worker stopped without a result. Committed changes remain; nothing is retried."
        silent = McpTask.open() & McpTask.running() & Q(seen_at=task.seen_at)
        error = _failed(task, silent, text)
        if task.is_over:
            logger.error("The worker of %s sent no heartbeat for %s s: %s", task, DEAD, error)
        else:
            # Another process was first, or it has expired.
            task.refresh_from_db()
    elif task.is_lost or task.queued_at is None and not task.is_over and not _is_held(task):
        release(task)


def _is_held(task: McpTask) -> bool:
    """Return whether a person can still decide on a task: its tool has not changed since."""
    is_open = getattr(task.pending_call, "status", None) == "waiting"
    return is_open and task.is_of(registry.discovered.tools.get(task.tool))


def _failed(task: McpTask, condition: Q, why: str) -> InternalError:
    """Mark a task as failed if a condition holds, and return the error."""
    reference = secrets.token_hex(6)
    error = InternalError(f"{why} The server's log says more under the reference {reference}.")
    values = {"code": error.code, "message": error.message}
    task.become(task.Status.FAILED, condition, error=values)
    return error
