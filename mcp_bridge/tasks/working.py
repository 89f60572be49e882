"""Run a task in a worker."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import Error, close_old_connections, connections
from django.utils import timezone

from mcp_bridge.access import policy
from mcp_bridge.concurrency import places
from mcp_bridge.confirmation.confirm import check_question
from mcp_bridge.exceptions import InputRequired, ToolError
from mcp_bridge.features import Context, Tool, ToolCall
from mcp_bridge.protocol import CallToolResult, InputRequiredResult, ProtocolError
from mcp_bridge.protocol.exchange import internal_error
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import cut, storable
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.server.perform import Call, perform
from mcp_bridge.server.server import MCPServer
from mcp_bridge.tasks.models import HEARTBEAT, McpTask
from mcp_bridge.tasks.origins import restored

logger = get_logger("mcp_bridge.tasks")

# The queue of the backend.
QUEUE: Final = "mcp"
# Seconds between two looks at the row of a running task.
LOOK: Final = 1.0
Status = McpTask.Status


def work(key: str) -> None:
    """Run a task until it is over or asks its client; does nothing if another worker has it."""
    now = timezone.now()
    rows = McpTask.rows().filter(McpTask.open(), pk=key, status=Status.WORKING, started_at=None)
    if not rows.update(started_at=now, seen_at=now, message="", updated_at=now):
        return
    task = McpTask.rows().get(pk=key)
    run = Run(task)
    try:
        with restored(task, run) as context, run.watched():
            result = run.cancellation.drive(_perform(task, context, run))
    except asyncio.CancelledError:
        # The row says so, or the worker is being stopped.
        task.become(Status.CANCELLED, by_worker=True)
    except ToolError as why:
        _complete(task, _not_run(task, why), run)
    except ProtocolError as error:
        if isinstance(error.result, CallToolResult):
            _complete(task, error.result, run)
        else:
            _fail(task, error, run)
    except Exception:
        _fail(task, internal_error(f"The task {task.pk[:6]}…"), run)
    else:
        if isinstance(result, InputRequiredResult):
            _ask(task, result, run)
        else:
            _complete(task, result, run)


class Run:
    """
    One run of a task in this process, which stands for the stream of its call.

    ``left`` are the fields of its ToolCall that are known from before.
    """

    # No client is reached from here.
    ask = readmit = None
    # Whether the time limit of requests does not apply.
    is_task = True

    def __init__(self, task: McpTask) -> None:
        self.task = task
        self.cancellation = places.Cancellation()
        self.left: dict[str, Any] = {"confirmed_at": task.confirmed_at, "round": task.round}
        self._ended = threading.Event()
        self.message = task.message

    async def note(self, record: UUID | None) -> None:
        """Store the key of the record of this run."""
        await places.in_thread()
        McpTask.rows().filter(pk=self.task.pk).update(record=record)

    def keep_question(self, call: ToolCall, required: InputRequired) -> InputRequiredResult:
        """Return the question of a tool, with the tool's state as JSON text, to be stored."""
        check_question(call, required)
        return InputRequiredResult(required.requests, encode(required.tool_state).decode())

    def report(self, done: float, total: float | None, message: str) -> None:
        """Keep the progress of the call, which the row has within a second."""
        share = f"{done:g}" if total is None else f"{done:g} of {total:g}"
        self.message = cut(storable(f"{share}: {message}" if message else share, 500), 490)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the row while the call runs, and write its progress and signs of life."""
        if places.must_stay():
            # Inside a transaction, as in tests, another thread would not see the row.
            yield
            return
        watcher = threading.Thread(target=self._watch, name="mcp_bridge_task", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._ended.set()
            watcher.join()

    def _watch(self) -> None:
        seen, message = timezone.now(), self.message
        while not self._ended.wait(LOOK):
            try:
                seen, message = self._look(seen, message)
            except Error:
                logger.warning("A running task could not be looked at", exc_info=True)
            finally:
                close_old_connections()
        connections.close_all()

    def _look(self, seen: datetime, message: str) -> tuple[datetime, str]:
        """Write what is new, and cancel the call if the task is over."""
        now, told = timezone.now(), self.message
        rows = McpTask.rows().filter(McpTask.open(), pk=self.task.pk, status=Status.WORKING)
        if told != message:
            is_working = bool(rows.update(message=told, updated_at=now, seen_at=now))
            seen = now
        elif (now - seen).total_seconds() >= HEARTBEAT:
            is_working = bool(rows.update(seen_at=now))
            seen = now
        else:
            is_working = rows.exists()
        if not is_working:
            self.cancellation.cancel()
        return seen, told


async def _perform(task: McpTask, context: Context, run: Run) -> Any:
    """Return the result of the call. Raises ToolError if it may not run any more."""
    server = MCPServer()
    if not server.choose(task.origin["toolset"]):
        raise ToolError("its toolset is not served any more")
    tool: Tool | None = server.snapshot.tools.get(task.tool)
    if tool is None or not policy.may_use(server.policy, tool, context):
        raise ToolError("its user may not use this tool any more")
    if fingerprint(canonical_definition(tool)) != task.fingerprint:
        raise ToolError("the tool has changed since it was called")
    call = Call(task.tool, task.arguments, context, tool, endpoint=server, task=run)
    call.is_counted = True
    return await perform(call)


def _not_run(task: McpTask, why: object) -> CallToolResult:
    return CallToolResult.error(f"Nothing was run: the call of {task.tool} waited, and {why}.")


def _complete(task: McpTask, result: CallToolResult, run: Run) -> None:
    written = json.loads(result.to_json(_revision(task)))
    task.become(Status.COMPLETED, by_worker=True, result=written, message=run.message)


def _fail(task: McpTask, error: ProtocolError, run: Run) -> None:
    found = {"code": error.code, "message": error.message}
    if error.data is not None:
        found["data"] = error.data
    task.become(Status.FAILED, by_worker=True, error=found, message=run.message)


def _ask(task: McpTask, asked: InputRequiredResult, run: Run) -> None:
    """Store the questions of a call; the answers begin its next run."""
    # A tool may ask the same again, and a key is used once in the life of a task.
    questions = {
        f"{key}.{task.round}": {"method": each.method, "params": each.params()}
        for key, each in asked.requests.items()
    }
    kept = {key: each for key, each in task.answers.items() if key not in asked.requests}
    task.become(
        Status.INPUT_REQUIRED,
        by_worker=True,
        questions=questions,
        answers=kept,
        tool_state=json.loads(asked.state),
        round=task.round + 1,
        started_at=None,
        message=run.message,
    )


def _revision(task: McpTask) -> Any:
    from mcp_bridge.protocol.revisions import LATEST, REVISIONS

    return REVISIONS.get(task.origin["revision"], LATEST)
