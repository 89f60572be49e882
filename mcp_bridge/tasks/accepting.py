"""Make a task of a call that was checked, counted and confirmed, or that waits for a person."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from mcp_bridge.calls import errors
from mcp_bridge.calls.running import decided
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import CallRefused
from mcp_bridge.features import ToolCall
from mcp_bridge.models import Generation
from mcp_bridge.models.outcomes import ErrorCode
from mcp_bridge.protocol import PENDING_KEY, CallToolResult, CreateTaskResult
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.tasks.origins import Unkeepable, owner_of, stored
from mcp_bridge.tasks.queueing import enqueue, settle

# The most tasks of a caller that are not over.
MOST_OPEN: Final = 100


def accept(call: Any, sent: Any, held: CallRefused | None) -> CreateTaskResult | None:
    """
    Store a call as a task, for a worker or, if it is ``held``, until a person has decided.

    ``call`` is a server.perform.Call, and ``sent`` are its arguments as the client sent them.
    Returns None for a call that becomes no task. Raises CallRefused if the caller has MOST_OPEN
    tasks, and InternalError if the queue refuses it.
    """
    checked: ToolCall = call.checked
    if held is None and not _is_wanted(checked):
        return None
    try:
        origin: Any = {**stored(checked.context), "toolset": call.endpoint.snapshot.toolset}
    except Unkeepable as why:
        if held is None and checked.tool.options.task == "required":
            text = f"{checked.tool.name} runs only as a task, for which {why}."
            raise _refused(f"{text} Use a token of this site.", ErrorCode.FORBIDDEN) from why
        return None
    open_tasks = McpTask.rows().filter(McpTask.open(), caller=owner_of(checked.context))
    if held is None and open_tasks.count() >= MOST_OPEN:
        text = f"{MOST_OPEN} tasks of this caller are open. Wait until some end, or cancel them."
        raise _refused(text, ErrorCode.THROTTLED)
    task, using = _new(checked, sent, origin, held), open_tasks.db
    with transaction.atomic(using=using):
        if held is not None:
            # The second of two requests at once finds the task of the first.
            Generation.lock(using)
            for each in open_tasks.filter(pending_call=task.pending_call_id, queued_at=None):
                if each.origin["credential"] == origin["credential"]:
                    return CreateTaskResult(each.members)
        task.save(force_insert=True, using=using)
        # A person may have decided before the task was there.
        queue = enqueue if held is None else settle
        transaction.on_commit(partial(queue, task), using=using)
    return CreateTaskResult(task.members)


def _new(call: ToolCall, sent: Any, origin: Any, held: CallRefused | None) -> McpTask:
    """Return the task of a call, not saved yet."""
    now, user, given = timezone.now(), call.context.user, dict(call.context.input_responses)
    pending: Any = None if held is None else held.pending_call
    return McpTask(
        caller=owner_of(call.context),
        user_id=user.pk if user is not None and user.is_authenticated else None,
        tool=call.tool.name,
        fingerprint=fingerprint(canonical_definition(call.tool)),
        arguments=sent or {},
        origin=origin,
        answers=given,
        tool_state=call.context.tool_state,
        round=call.round,
        confirmed_at=call.confirmed_at,
        message="" if held is None else _waits(held),
        pending_call_id=pending,
        created_at=now,
        updated_at=now,
        queued_at=now if held is None else None,
        expires_at=now + timedelta(seconds=conf.TASK_TTL),
    )


def _is_wanted(call: ToolCall) -> bool:
    """Return whether this call becomes a task. Raises CallRefused if the tool's option raises."""
    task: Any = call.tool.options.task
    if not callable(task):
        return bool(task)
    try:
        return decided(call, task)
    except Exception as exception:
        raise CallRefused(*errors.handle_error(call, exception)[:3]) from exception


def _refused(why: str, code: str) -> CallRefused:
    return CallRefused(CallToolResult.error(f"Nothing was run: {why}"), code)


def _waits(held: CallRefused) -> str:
    """Return the message of a task that waits for a person."""
    result: Any = held.result
    pending = result.meta[PENDING_KEY]
    where = f"at {pending['url']}" if "url" in pending else f"as number {pending['id']}"
    return f"waits for a person's approval {where}"[:500]
