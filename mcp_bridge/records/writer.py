"""
Writes records in batches, in a thread of the process.

The writer thread starts with the first record and stops, closing its connection, after IDLE
seconds without one. Records are flushed every INTERVAL seconds, or retried until a locked
database accepts them. Code that reads records in the same process calls ``flush`` first, as do
the end of the process and ``os.fork``.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from time import monotonic, sleep
from typing import Any, Final, TypeAlias

from django.db import connections, router

from mcp_bridge.calls.running import is_in_transaction
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol.logs import get_logger

logger = get_logger("mcp_bridge.records")

# Seconds from a first record to the statement that writes it, and the records of one statement.
INTERVAL: Final = 0.25
BATCH: Final = 200
# The most records in the queue; beyond that, callers write their own.
LIMIT: Final = 1000
# The most records in the queue while the database is unavailable; further ones are lost.
KEPT: Final = 10_000
# Seconds between attempts then, and the attempts after which records are written one by one.
RETRY: Final = 1.0
_MOST_ATTEMPTS: Final = 3
# Seconds without a record after which the thread stops.
IDLE: Final = 30.0
# Seconds between checks whether the server is shutting down, while records wait: uvicorn leaves
# about 0.1 seconds for them.
_LOOK: Final = 0.025
# Seconds that ``flush`` and the end of the process wait.
PATIENCE: Final = 10.0

# A record or a change of one; opaque to this module.
Record: TypeAlias = Any


# Cached, since each task on an event loop would open a connection.
@lru_cache(maxsize=8)
def _place(using: str, name: object) -> tuple[bool, bool]:
    """Return whether other connections see this database, and whether it allows one writer."""
    connection = connections[using]
    is_sqlite = connection.vendor == "sqlite"
    # The request's own schema (django-tenants); an in-memory database, which each connection has
    # for itself, or which any reader locks.
    is_own = hasattr(connection, "set_schema") or is_sqlite and connection.is_in_memory_db()  # type: ignore[attr-defined]
    return not is_own, is_sqlite


class Writer:
    """
    A bounded queue of records, and the thread that writes them.

    All state is guarded by the lock of ``_changed``, which is not held during queries.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Record], str], Sequence[Record]],
        lose: Callable[[Sequence[Record]], None],
    ) -> None:
        # ``write`` writes records to a database and returns those to retry; ``lose`` logs those
        # that are lost. Neither raises.
        self._write, self._lose = write, lose
        self._is_registered = False
        self._begin()

    def _begin(self) -> None:
        """Reset to an empty queue without a thread, as in a forked child."""
        self._changed = threading.Condition(threading.Lock())
        self._waiting: list[tuple[str, Record]] = []
        # The records being written.
        self._taken: list[tuple[str, Record]] = []
        self._thread: threading.Thread | None = None
        self.is_running = False
        self._is_writing = self._has_ended = False
        # Consecutive attempts in which the database accepted nothing.
        self._attempts = 0
        # The number of calls of ``flush``, and the last one whose records are written.
        self._asked = self._answered = 0

    def is_full(self) -> bool:
        """Return whether the queue has reached KEPT."""
        return len(self._waiting) >= KEPT

    def room(self) -> tuple[str, int] | None:
        """
        Return the database of records, and the most that may wait for it.

        None if another connection could not write the record that this one would write now.
        """
        using = router.db_for_write(ToolCallRecord)
        is_shared, writes_alone = _place(using, connections.settings[using]["NAME"])
        if not is_shared or is_in_transaction(using):
            return None
        # With a single writer, the caller would only wait for the lock.
        return using, KEPT if self._attempts or writes_alone else LIMIT

    def leave(self, record: Record) -> bool:
        """
        Queue a record and return True; False if the caller must write it.

        That is if it may not wait, if too many are waiting, or if the process ends.
        """
        room = self.room()
        if room is None:
            return False
        using, most = room
        with self._changed:
            if len(self._waiting) >= most or self._has_ended or not self._has_thread():
                return False
            self._waiting.append((using, record))
            if len(self._waiting) in (1, BATCH):
                self._changed.notify_all()
        return True

    def flush(self) -> None:
        """
        Wait until all queued records are written or logged as lost, and the connection is closed.

        If the database is unavailable, wait for one more attempt.

        Does nothing in a transaction on SQLite, since the thread would wait for its end.
        """
        if not self.is_running:
            return
        with self._changed:
            databases = {using for using, _ in self._taken + self._waiting}
        for each in connections.all(initialized_only=True):
            if each.alias in databases and each.in_atomic_block and each.vendor == "sqlite":
                return
        with self._changed:
            thread = self._thread
            if thread is None:
                return
            self._asked += 1
            mine = self._asked
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._answered >= mine or self._thread is not thread, PATIENCE
            )

    def _has_thread(self) -> bool:
        """Return whether the thread runs; start it if needed. The lock must be held."""
        if self._thread is not None:
            return True
        if not self._is_registered:
            self._is_registered = True
            atexit.register(self._end)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(
                    before=self._before_fork,
                    after_in_parent=lambda: self._changed.release(),
                    after_in_child=self._begin,
                )
        thread = threading.Thread(target=self._run, name="mcp_bridge.records", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # Threads cannot be started during interpreter shutdown.
            return False
        self._thread, self.is_running = thread, True
        return True

    def _end(self) -> None:
        """Write all waiting records; later ones are written by their callers."""
        self._has_ended = True
        self.close()

    def close(self) -> None:
        """Write waiting records for at most PATIENCE seconds; the rest is lost."""
        until = monotonic() + PATIENCE
        self.flush()
        while self._waiting and self.is_running and monotonic() < until:
            # An unreachable database fails at once.
            sleep(INTERVAL)
            self.flush()
        with self._changed:
            # The thread may still be waiting for a lock.
            left, self._waiting = self._taken + self._waiting, []
        self._lose([record for _, record in left])

    def _before_fork(self) -> None:
        """Close connections before a fork; the lock is held until the fork is done."""
        self.flush()
        self._changed.acquire()
        self._changed.wait_for(lambda: not self._is_writing, PATIENCE)

    def _run(self) -> None:
        """Write queued records until the thread has been idle."""
        idle = IDLE
        while (taken := self._take(idle)) is not None:
            records, asked = taken
            idle = IDLE if records else 0
            kept = self._written(records)
            try:
                if asked or not records:
                    connections.close_all()
            except Exception:
                logger.exception("The connection for records could not be closed")
            with self._changed:
                self._waiting[:0] = kept
                self._taken, self._is_writing = [], False
                self._answered = asked or self._answered
                self._changed.notify_all()

    def _written(self, records: list[tuple[str, Record]]) -> list[tuple[str, Record]]:
        """Write records, and return those to retry."""
        # A record that always fails is isolated and moved to the end, so as not to block others.
        size = 1 if self._attempts >= _MOST_ATTEMPTS else BATCH
        kept: list[tuple[str, Record]] = []
        failed: list[tuple[str, Record]] = []
        for using, group in groupby(records, itemgetter(0)):
            rows = [record for _, record in group]
            while rows:
                batch, rows = rows[:size], rows[size:]
                try:
                    refused = self._write(batch, using)
                except Exception:
                    # For example out of memory; other records are still written.
                    logger.exception("The thread that writes records failed")
                    self._lose(batch)
                    continue
                if refused:
                    failed += [(using, each) for each in refused]
                    kept += [(using, each) for each in rows]
                    break
                size = min(2 * size, BATCH)
        if waiting := len(failed) + len(kept):
            if not self._attempts:
                text = "%s records of calls are waiting: the database is unavailable"
                logger.warning(text, waiting)
            self._attempts += 1
        elif self._attempts:
            logger.warning("The waiting records of calls have been written")
            self._attempts = 0
        return kept + failed if len(failed) == 1 else failed + kept

    def _take(self, idle: float) -> tuple[list[tuple[str, Record]], int] | None:
        """Return records, and the number of a waiting ``flush`` or 0; None to stop the thread."""
        with self._changed:
            idle_at = monotonic() + idle
            while not (self._waiting or self._asked > self._answered):
                if not idle:
                    self._thread, self.is_running = None, False
                    self._changed.notify_all()
                    return None
                if (left := idle_at - monotonic()) <= 0:
                    return [], 0
                self._changed.wait(left)
            due_at = monotonic() + (RETRY if self._attempts else INTERVAL)
            while self._asked == self._answered:
                if len(self._waiting) >= BATCH and not self._attempts:
                    break
                left = due_at - monotonic()
                if left <= 0 or _is_server_ending():
                    break
                self._changed.wait(min(left, _LOOK))
            taken, self._waiting = self._waiting, []
            self._taken, self._is_writing = taken, True
            return taken, self._asked if self._asked > self._answered else 0


def _is_server_ending() -> bool:
    """Return whether the server of this process is shutting down."""
    # uvicorn lacks an exit hook; its signal handler is a method of the server object.
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", False) is True
