"""Make a task of a call that was checked, counted and confirmed, or that waits for a person."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from mcp_bridge.access.policy import caller_of
from mcp_bridge.calls import errors
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import CallRefused
from mcp_bridge.features import Context, ToolCall
from mcp_bridge.models import PendingCall
from mcp_bridge.models.outcomes import ErrorCode
from mcp_bridge.protocol import PENDING_KEY, CallToolResult
from mcp_bridge.protocol.errors import InternalError
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.tasks import CreateTaskResult
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.server.perform import Call
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.tasks.origins import Unkeepable, stored

logger = get_logger("mcp_bridge.tasks")

# The most tasks of a caller that are not over.
MOST_OPEN: Final = 100


def accept(call: Call, sent: Any, held: CallRefused | None) -> CreateTaskResult | None:
    """
    Store a call as a task, for a worker or, if it is ``held``, until a person has decided.

    ``sent`` are the arguments as the client sent them. Returns None for a call that becomes no
    task. Raises CallRefused if the caller has MOST_OPEN tasks, and InternalError if the queue
    refuses it.
    """
    checked: ToolCall = call.checked
    if held is None and not _is_wanted(checked):
        return None
    caller = owner_of(checked.context)
    rows = McpTask.rows().filter(McpTask.open(), caller=caller)
    pending: Any = None if held is None else held.pending_call
    waiting = pending and rows.filter(pending_call=pending).first()
    if waiting:
        # The client has repeated its call.
        return CreateTaskResult(waiting.members)
    if held is None and rows.count() >= MOST_OPEN:
        text = f"{MOST_OPEN} tasks of this caller are not over. Wait for some, or cancel them."
        raise _refused(checked, text)
    try:
        origin: Any = {**stored(checked.context), "toolset": call.endpoint.snapshot.toolset}
    except Unkeepable as why:
        if held is None and checked.tool.options.task == "required":
            raise _refused(checked, f"a worker could not check its caller again: {why}.") from why
        return None
    now, user, given = timezone.now(), checked.context.user, dict(checked.context.input_responses)
    task = McpTask(
        caller=caller,
        user_id=user.pk if user is not None and user.is_authenticated else None,
        tool=checked.tool.name,
        fingerprint=fingerprint(canonical_definition(checked.tool)),
        arguments=sent or {},
        origin=origin,
        answers=given,
        tool_state=checked.context.tool_state,
        round=checked.round,
        confirmed_at=checked.confirmed_at,
        message="" if held is None else _waits(held),
        pending_call_id=pending,
        created_at=now,
        updated_at=now,
        expires_at=now + timedelta(seconds=conf.TASK_TTL),
        ttl_ms=int(conf.TASK_TTL * 1000),
    )
    with transaction.atomic(using=McpTask.rows().db):
        task.save(force_insert=True, using=McpTask.rows().db)
        if held is None:
            transaction.on_commit(partial(enqueue, task), using=McpTask.rows().db)
    return CreateTaskResult(task.members)


def owner_of(context: Context) -> str:
    """Return the owner of a caller's tasks: its user, or else its credential or its address."""
    return " ".join(caller_of(context))[:160]


def enqueue(task: McpTask) -> None:
    """Give a task to the queue. Raises InternalError if the queue does not take it."""
    from mcp_bridge.tasks.jobs import run_task

    try:
        run_task.enqueue(task.pk)
    except Exception as exception:
        # A backend may raise any exception, such as its broker's.
        reference = secrets.token_hex(6)
        logger.exception("A task could not be queued (reference %s)", reference)
        text = "The call was not run: it could not be queued. The server's log says why under the "
        error = InternalError(f"{text}reference {reference}.")
        task.become(task.Status.FAILED, error={"code": error.code, "message": error.message})
        raise error from exception


def resume_held(sender: object, pending: PendingCall, **others: object) -> None:
    """Queue the tasks that waited for a decision on a pending call, which they then find."""
    for task in McpTask.rows().filter(McpTask.open(), pending_call=pending, started_at=None):
        enqueue(task)


def _is_wanted(call: ToolCall) -> bool:
    """Return whether the tool wants this call as a task. Raises CallRefused if it raises."""
    task: bool | str | Callable[[ToolCall], object] = call.tool.options.task
    if not callable(task):
        return bool(task)
    try:
        return bool(task(call))
    except Exception as exception:
        raise CallRefused(*errors.handle_error(call, exception)[:3]) from exception


def _refused(call: ToolCall, why: str) -> CallRefused:
    text = f"Nothing was run: {call.tool.name} runs as a task, and {why}"
    return CallRefused(CallToolResult.error(text), ErrorCode.THROTTLED)


def _waits(held: CallRefused) -> str:
    """Return the message of a task that waits for a person."""
    result: Any = held.result
    pending = result.meta[PENDING_KEY]
    where = f"at {pending['url']}" if "url" in pending else f"as number {pending['id']}"
    return f"waits for a person's approval {where}"
