"""The methods of tasks (MCP's extension Tasks, ``io.modelcontextprotocol/tasks``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from django.db import transaction
from django.utils import timezone

from mcp_bridge.concurrency.places import in_thread
from mcp_bridge.features import Context
from mcp_bridge.protocol import TASKS as EXTENSION
from mcp_bridge.protocol import JSONObject, Request, errors
from mcp_bridge.protocol.input_requests import check_response
from mcp_bridge.server.methods import Endpoint, Methods
from mcp_bridge.tasks.accepting import MOST_OPEN
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.tasks.origins import owner_of
from mcp_bridge.tasks.queueing import enqueue, settle

Status = McpTask.Status
_DONE: Final[JSONObject] = {"resultType": "complete"}


async def get_task(endpoint: Endpoint, request: Request, context: Context) -> JSONObject:
    """Return a task of the caller, with its result, its error or its questions, if any."""
    task = await _task_of(request, context)
    return {**_DONE, **task.details}


async def update_task(endpoint: Endpoint, request: Request, context: Context) -> JSONObject:
    """
    Store a client's answers to the questions of a task; the last one queues its next run.

    Answers to unknown questions are ignored. Raises InvalidParamsError for an answer of another
    type than its question.
    """
    task = await _task_of(request, context)
    responses = request.params.get("inputResponses")
    if not isinstance(responses, dict):
        raise errors.InvalidParamsError("Invalid params: inputResponses must be an object.")
    using = McpTask.rows().db
    with transaction.atomic(using):
        # Written first, so that the row is locked, in SQLite too.
        McpTask.rows().filter(pk=task.pk).update(caller=task.caller)
        task = McpTask.rows().get(pk=task.pk)
        # Only a task that waits for answers has questions.
        given = {key: each for key, each in responses.items() if key in task.questions}
        if not given:
            return _DONE
        for key, response in given.items():
            check_response(key, task.questions[key]["method"], response)
        left = {key: each for key, each in task.questions.items() if key not in given}
        # Without the number of the round.
        own = {key.rpartition(".")[0]: each for key, each in given.items()}
        status = Status.INPUT_REQUIRED if left else Status.WORKING
        task.become(status, questions=left, answers={**task.answers, **own})
        if not left:
            transaction.on_commit(partial(enqueue, task), using=using)
    return _DONE


async def cancel_task(endpoint: Endpoint, request: Request, context: Context) -> JSONObject:
    """Cancel a task of the caller, unless it is over."""
    task = await _task_of(request, context)
    task.become(Status.CANCELLED)
    return _DONE


async def _task_of(request: Request, context: Context) -> McpTask:
    """
    Return the caller's task that a request names.

    Raises InvalidParamsError, alike for a task that is unknown, another caller's, or expired, and
    MissingRequiredClientCapabilityError for a client without the extension.
    """
    if not request.declares(EXTENSION):
        raise context.missing_capabilities(f"extensions.{EXTENSION}")
    key = request.params.get("taskId")
    if not isinstance(key, str):
        raise errors.InvalidParamsError("Invalid params: taskId must be a string.")
    headers = request.headers
    # Some clients leave it out.
    if headers is not None and headers.name is not None:
        headers.check(request.revision.version, request.method, key)
    await in_thread()
    rows = McpTask.rows().filter(pk=key[:33], caller=owner_of(context))
    task = rows.select_related("pending_call").first()
    if task is None or task.is_expired:
        raise errors.InvalidParamsError("Unknown task: it does not exist, or has expired.")
    settle(task)
    return task


class Followed:
    """The tasks of a caller that a subscription follows, by their ids; others are left out."""

    def __init__(self, wanted: object, context: Context) -> None:
        listed = wanted[:MOST_OPEN] if isinstance(wanted, list) else []
        keys = [each[:33] for each in listed if isinstance(each, str)]
        self._rows = McpTask.rows().filter(pk__in=keys, caller=owner_of(context))
        alive = self._rows.filter(expires_at__gt=timezone.now())
        self._known = dict(alive.values_list("pk", "updated_at"))
        self._rows = self._rows.filter(pk__in=self._known).select_related("pending_call")
        self.ids = [*self._known]

    def changed(self) -> Sequence[JSONObject]:
        """Return the tasks that have changed since, each as ``tasks/get`` returns it."""
        for each in self._rows.filter(McpTask.open()).defer(*McpTask.LARGE):
            settle(each)
        now = dict(self._rows.values_list("pk", "updated_at"))
        keys = [key for key, at in now.items() if at != self._known[key]]
        found = [each.details for each in self._rows.filter(pk__in=keys)] if keys else []
        self._known |= now
        return found


TASKS: Final[tuple[Methods, JSONObject]] = (
    {"tasks/get": get_task, "tasks/update": update_task, "tasks/cancel": cancel_task},
    {"extensions": {EXTENSION: {}}},
)
