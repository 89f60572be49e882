"""Run a task in a worker."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from django.utils import timezone

from mcp_bridge.access import policy
from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import Context
from mcp_bridge.models.outcomes import ErrorCode
from mcp_bridge.protocol import CallToolResult, InputRequiredResult, ProtocolError, internal_error
from mcp_bridge.protocol.jsonrpc import error_response
from mcp_bridge.records import recorder
from mcp_bridge.server.perform import Call, perform
from mcp_bridge.server.server import MCPServer
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.tasks.origins import restored
from mcp_bridge.tasks.runs import Run

Status = McpTask.Status


def work(key: str) -> None:
    """Run a task until it is over or asks its client; does nothing if another worker has it."""
    now = timezone.now()
    rows = McpTask.rows().filter(McpTask.open(), status=Status.WORKING, started_at=None, pk=key)
    is_mine = rows.update(started_at=now, seen_at=now, updated_at=now, message="")
    # None if it is cancelled in this moment.
    task = McpTask.rows().filter(McpTask.running(), pk=key).first() if is_mine else None
    if task is None:
        return
    run = Run(task)
    with run.watched():
        try:
            status, values = _ended(run)
        except BaseException:
            # The process is being ended.
            run.save(Status.FAILED, error=_error(internal_error(f"Task {run.task}")))
            raise
        run.save(status, **values)


def _ended(run: Run) -> tuple[str, dict[str, Any]]:
    """Run the call; return the status of the task, and the values that come with it."""
    task = run.task
    try:
        with restored(task, run) as (context, ended):
            result = run.cancellation.drive(_perform(task, context, ended, run))
            if isinstance(result, InputRequiredResult):
                return Status.INPUT_REQUIRED, _asked(result, run)
            return Status.COMPLETED, {"result": json.loads(result.to_json(context.revision))}
    except asyncio.CancelledError:
        return Status.CANCELLED, {}
    except ProtocolError as error:
        if isinstance(error.result, CallToolResult):
            return Status.COMPLETED, {"result": json.loads(error.result.to_json(context.revision))}
        return Status.FAILED, {"error": _error(error)}
    except Exception:
        return Status.FAILED, {"error": _error(internal_error(f"Task {task}"))}


async def _perform(task: McpTask, context: Context, ended: str, run: Run) -> Any:
    """Return the result of the call, or an error result if it may not run any more."""
    server = MCPServer()
    if ended := ended or _obstacle(task, context, server):
        error = ToolError(f"Nothing was run: {ended}. The call of {task.tool} was in the queue.")
        tool = server.snapshot.tools.get(task.tool)
        # Another definition does not say which of the arguments are secret.
        given = task.tool, task.arguments if task.is_of(tool) else {}, context
        recorder.refuse(ErrorCode.FORBIDDEN, *given, tool=tool, error=error)
        return CallToolResult.error(str(error))
    tool = server.snapshot.tools[task.tool]
    call = Call(task.tool, task.arguments, context, tool, endpoint=server, task=run)
    call.is_counted = True
    return await perform(call)


def _obstacle(task: McpTask, context: Context, server: MCPServer) -> str:
    """Choose the toolset of a task; return why its tool cannot be used, or ""."""
    if not server.choose(task.origin["toolset"]):
        return "its toolset no longer exists"
    tool = server.snapshot.tools.get(task.tool)
    if tool is None or not policy.may_use(server.policy, tool, context):
        return "its user may no longer use the tool"
    return "" if task.is_of(tool) else "the tool was changed after the call"


def _error(error: ProtocolError) -> dict[str, Any]:
    """Return the JSON-RPC error of a task."""
    try:
        found: dict[str, Any] = json.loads(error_response(None, error))["error"]
        return found
    except (TypeError, ValueError):
        return _error(internal_error("Encoding the error of a task"))


def _asked(asked: InputRequiredResult, run: Run) -> dict[str, Any]:
    """Return the questions of a call, for the row; the answers begin its next run."""
    task = run.task
    # A tool may ask the same again, and a key is used once in the life of a task.
    questions = {
        f"{key}.{task.round}": {"method": each.method, "params": each.params()}
        for key, each in asked.requests.items()
    }
    kept = {key: each for key, each in task.answers.items() if key not in asked.requests}
    return {
        "questions": questions,
        "answers": kept,
        "tool_state": json.loads(asked.state),
        "round": task.round + 1,
        "started_at": None,
        "confirmed_at": run.known["confirmed_at"],
    }
