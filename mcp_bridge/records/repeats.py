"""
Counts refusals that repeat one of the last minute, so that they do not fill the table.

Each process counts its own. The number of counted refusals and the time are bounded.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from mcp_bridge.records.record import Record

# Seconds after a first refusal during which others count as its repetitions.
WINDOW: Final = 60.0
# The most refusals tracked at once; beyond that the oldest is dropped.
MOST: Final = 10_000


@dataclass(slots=True, eq=False)
class Repeats:
    """A refusal and the number of its occurrences."""

    first: Record
    until: float
    times: int = 1
    is_queued: bool = False

    def take(self) -> Record:
        """Return the record with the current count; a later repetition is queued again."""
        # Reset first, since another may be counted in the meantime.
        self.is_queued = False
        return self.first._replace(times=self.times, is_begun=True)


class Refusals:
    """The refusals of the last minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # In the order in which they began, and therefore expire.
        self._known: dict[Hashable, Repeats] = {}

    def repeated(self, key: Hashable, record: Record) -> tuple[Repeats | None, bool]:
        """
        Count a refusal; return the one it repeats, and whether that must be written now.

        None if it is the first one, which must be inserted.
        """
        now = monotonic()
        with self._lock:
            while self._known:
                oldest = next(iter(self._known))
                if self._known[oldest].until > now and len(self._known) <= MOST:
                    break
                del self._known[oldest]
            known = self._known.get(key)
            if known is None:
                self._known[key] = Repeats(first=record, until=now + WINDOW)
                return None, False
            known.times += 1
            is_due, known.is_queued = not known.is_queued, True
            return known, is_due

    def clear(self) -> None:
        """Drop all counts; the next refusal is a first one."""
        with self._lock:
            self._known.clear()


refusals: Final = Refusals()
