"""
Writing of records together, by a thread of the process.

The thread begins with a first record and ends when there has been none for a while, as does its
connection. A record waits for it at most INTERVAL seconds; where the database takes none, such as a
locked file, until it does. Whoever reads records in the same process calls ``flush`` first; so do
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
# The records that may wait: of any more, the caller writes its own.
LIMIT: Final = 1000
# The records that may wait while the database takes none; any more are lost.
KEPT: Final = 10_000
# Seconds to the next attempt then, and the attempts after which one begins with a record alone.
RETRY: Final = 1.0
_MOST_ATTEMPTS: Final = 3
# Seconds without a record after which the thread ends.
IDLE: Final = 30.0
# Seconds between two looks at whether the server ends, while records wait: uvicorn has some 0.1 of
# them left then.
_LOOK: Final = 0.025
# Seconds for which ``flush`` waits, and the end of the process.
PATIENCE: Final = 10.0

# A record, or a change of one: only what writes them looks into it.
Record: TypeAlias = Any


# Kept, since each task on an event loop would make a connection to ask it.
@lru_cache(maxsize=8)
def _place(using: str, name: object) -> tuple[bool, bool]:
    """Return whether other connections find what one has written, and whether one writes alone."""
    connection = connections[using]
    is_sqlite = connection.vendor == "sqlite"
    # In a schema of this request (django-tenants); a database in memory is another one for each
    # connection, or locked by any that reads.
    is_own = hasattr(connection, "set_schema") or is_sqlite and connection.is_in_memory_db()  # type: ignore[attr-defined]
    return not is_own, is_sqlite


class Writer:
    """
    A bounded queue of records, and the thread that writes them.

    All state is under the lock of ``_changed``, which nobody holds while the database is asked.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Record], str], Sequence[Record]],
        lose: Callable[[Sequence[Record]], None],
    ) -> None:
        # Writes records to a database, and returns those that it does not take now; the other logs
        # those that it never will. Neither raises anything.
        self._write, self._lose = write, lose
        self._is_registered = False
        self._begin()

    def _begin(self) -> None:
        """Begin with an empty queue and without a thread, as a forked child has to."""
        self._changed = threading.Condition(threading.Lock())
        self._waiting: list[tuple[str, Record]] = []
        # Those that are being written.
        self._taken: list[tuple[str, Record]] = []
        # Those of the records that wait or are being written.
        self._databases: set[str] = set()
        self._thread: threading.Thread | None = None
        self.is_running = False
        self._is_writing = self._has_ended = False
        # How often in a row the database has taken none.
        self._attempts = 0
        # How many calls of ``flush`` there were, and up to which one all is written.
        self._asked = self._answered = 0

    @property
    def is_held_up(self) -> bool:
        """Return whether the database has taken no record when it was last asked."""
        return self._attempts > 0

    def is_full(self) -> bool:
        """Return whether no more can be kept."""
        return len(self._waiting) >= KEPT

    def room(self) -> tuple[str, int] | None:
        """
        Return the database of records, and how many may wait for it.

        None if another connection cannot write the record that this one would write now.
        """
        using = router.db_for_write(ToolCallRecord)
        is_shared, writes_alone = _place(using, connections.settings[using]["NAME"])
        if not is_shared or is_in_transaction(using):
            return None
        # A caller who wrote it itself would only wait.
        return using, KEPT if self.is_held_up or writes_alone else LIMIT

    def leave(self, record: Record) -> bool:
        """Queue a record if it may wait and there is room; return whether it was queued."""
        room = self.room()
        return room is not None and self.put(record, *room)

    def put(self, record: Record, using: str, most: int) -> bool:
        """
        Queue a record for a database, and return True; False where the caller has to write it.

        That is when ``most`` wait, and when the process ends.
        """
        with self._changed:
            if len(self._waiting) >= most or self._has_ended or not self._has_thread():
                return False
            self._waiting.append((using, record))
            self._databases.add(using)
            if len(self._waiting) in (1, BATCH):
                self._changed.notify_all()
        return True

    def flush(self) -> None:
        """
        Wait until all that was queued is written, or logged as lost, and the connection closed.

        Where the database takes none, until it was asked once more.

        Does nothing in a transaction on SQLite, for whose end the thread itself would wait.
        """
        if not self.is_running:
            return
        for connection in connections.all(initialized_only=True):
            is_open = connection.alias in self._databases and connection.in_atomic_block
            if is_open and connection.vendor == "sqlite":
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
        """Return whether there is a thread; it is started here, with the lock held."""
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
            # None can be started while the interpreter ends.
            return False
        self._thread, self.is_running = thread, True
        return True

    def _end(self) -> None:
        """Write what waits, and have later records written by their callers."""
        self._has_ended = True
        self.close()

    def close(self) -> None:
        """Write what waits, for at most PATIENCE seconds; what is not written then is lost."""
        until = monotonic() + PATIENCE
        self.flush()
        while self._waiting and self.is_running and monotonic() < until:
            # One that is away says so at once.
            sleep(INTERVAL)
            self.flush()
        with self._changed:
            # The thread may be waiting for a lock, and go on.
            left, self._waiting = self._taken + self._waiting, []
        self._lose([record for _, record in left])

    def _before_fork(self) -> None:
        """Leave the child no connection in use; the lock is held until the fork is done."""
        self.flush()
        self._changed.acquire()
        self._changed.wait_for(lambda: not self._is_writing, PATIENCE)

    def _run(self) -> None:
        """Write what is queued, until nothing has been for a while."""
        idle = IDLE
        while (taken := self._take(idle)) is not None:
            records, asked = taken
            idle = IDLE if records else 0
            kept = self._written(records)
            try:
                if asked or not records:
                    connections.close_all()
            except Exception:
                logger.exception("The connection of the records cannot be closed")
            with self._changed:
                self._waiting[:0] = kept
                self._taken, self._is_writing = [], False
                self._databases = {using for using, _ in self._waiting}
                self._answered = asked or self._answered
                self._changed.notify_all()

    def _written(self, records: list[tuple[str, Record]]) -> list[tuple[str, Record]]:
        """Write records, and return those that the database does not take now."""
        # One that it never takes must not keep the others: it is found alone, and becomes the last.
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
                    # Such as an interpreter that is out of memory: others are written all the same.
                    logger.exception("The thread that writes records has failed")
                    self._lose(batch)
                    continue
                if refused:
                    failed += [(using, each) for each in refused]
                    kept += [(using, each) for each in rows]
                    break
                size = min(2 * size, BATCH)
        if waiting := len(failed) + len(kept):
            if not self._attempts:
                text = "%s records of calls wait: the database takes none just now"
                logger.warning(text, waiting)
            self._attempts += 1
        elif self._attempts:
            logger.warning("The records of calls that have waited are written")
            self._attempts = 0
        return kept + failed if len(failed) == 1 else failed + kept

    def _take(self, idle: float) -> tuple[list[tuple[str, Record]], int] | None:
        """Return records, and the number of the ``flush`` that waits, or 0; None to end."""
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
            due_at = monotonic() + (RETRY if self.is_held_up else INTERVAL)
            while self._asked == self._answered:
                if len(self._waiting) >= BATCH and not self.is_held_up:
                    break
                left = due_at - monotonic()
                if left <= 0 or _is_server_ending():
                    break
                self._changed.wait(min(left, _LOOK))
            taken, self._waiting = self._waiting, []
            self._taken, self._is_writing = taken, True
            return taken, self._asked if self._asked > self._answered else 0


def _is_server_ending() -> bool:
    """Return whether the server of this process has been told to end."""
    # uvicorn runs nothing at the exit, and has a method of its server handle the signal.
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", False) is True
