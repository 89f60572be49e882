"""One run of a task in a worker: its progress, its heartbeats, and its end by others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from time import sleep
from typing import Any, Final
from uuid import UUID

from django.db import Error, close_old_connections, connections
from django.utils import timezone

from mcp_bridge.concurrency import places
from mcp_bridge.confirmation.confirm import check_question
from mcp_bridge.confirmation.queue import consume_own
from mcp_bridge.exceptions import InputRequired
from mcp_bridge.features import ToolCall
from mcp_bridge.protocol import InputRequiredResult
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.protocol.text import cut, storable
from mcp_bridge.tasks.models import HEARTBEAT, McpTask

logger = get_logger("mcp_bridge.tasks")

# Seconds between two looks at the row of a running task.
LOOK: Final = 1.0
# Seconds before each further try to save the end of a run.
_PAUSES: Final = (0, 1, 2, 4, 8, 15, 30)


class Run:
    """
    One run of a task in this process, used as the stream of its call.

    ``known`` has the fields of its ToolCall from earlier runs.
    """

    # No client is reached from here.
    ask = None
    # Whether the time limit of requests does not apply.
    is_task = True

    def __init__(self, task: McpTask) -> None:
        self.task = task
        self.cancellation = places.Cancellation()
        self.known: dict[str, Any] = {"confirmed_at": task.confirmed_at, "round": task.round}
        self.message = ""
        self._ended = threading.Event()

    async def note(self, record: UUID | None) -> None:
        """Store the key of the record of this run."""
        await places.in_thread()
        McpTask.rows().filter(pk=self.task.pk).update(record=record)

    def confirmed(self, call: ToolCall) -> ToolCall:
        """Return the call, which a person has approved. Raises CallRefused if not."""
        if call.tool.options.confirm and not call.confirmed:
            call = consume_own(call, self.task.pending_call_id)
            self.known["confirmed_at"] = call.confirmed_at
        return call

    def keep_question(self, call: ToolCall, required: InputRequired) -> InputRequiredResult:
        """Return the question of a tool, with the tool's state as JSON text, to be stored."""
        check_question(call, required)
        if not required.requests:
            raise ValueError("A task cannot wait for no answer.")
        # Raises an error now for what is not JSON.
        encode({key: each.params() for key, each in required.requests.items()})
        return InputRequiredResult(required.requests, encode(required.tool_state).decode())

    def report(self, done: float, total: float | None, message: str) -> None:
        """Set the message of the task, which is written within a second."""
        share = f"{done:.10g}" if total is None else f"{done:.10g} of {total:.10g}"
        self.message = cut(storable(f"{share}: {message}" if message else share, 500), 490)

    def save(self, status: str, **values: Any) -> None:
        """Save the end of the run, unless the task is over; tries again for a minute."""
        for number, pause in enumerate(_PAUSES, 1):
            sleep(pause)
            try:
                self.task.become(status, McpTask.running(), message=self.message, **values)
                return
            except Error:
                if number == len(_PAUSES) or places.must_stay():
                    raise
                # The connection may have been closed while the tool ran.
                logger.warning("The end of a task could not be saved yet", exc_info=True)
                places.close_connections()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Poll the row while the call runs, and write its progress and heartbeats."""
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
        """Write new progress or a heartbeat; cancel the call if the task is over."""
        now, told = timezone.now(), self.message
        rows = McpTask.rows().filter(McpTask.open(), McpTask.running(), pk=self.task.pk)
        news: Any = {} if told == message else {"message": told, "updated_at": now}
        if news or (now - seen).total_seconds() >= HEARTBEAT:
            seen, is_working = now, bool(rows.update(seen_at=now, **news))
        else:
            is_working = rows.exists()
        if not is_working:
            self.cancellation.cancel()
        return seen, told
