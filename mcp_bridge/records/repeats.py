"""
Refusals that repeat one of the last minute, which are counted on its row and do not fill the table.

Each process counts its own. What is counted is bounded, as is for how long.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from mcp_bridge.records.record import Record

# Seconds from a first refusal in which others are counted as its repetitions.
WINDOW: Final = 60.0
# The refusals that are known at once; of any more, the oldest is forgotten.
MOST: Final = 10_000


@dataclass(slots=True, eq=False)
class Repeats:
    """A refusal, and how many there were with its repetitions."""

    first: Record
    until: float
    times: int = 1
    is_queued: bool = False

    def take(self) -> Record:
        """Return the record of all of them so far; the next one is queued again."""
        # First, since another may be counted in between.
        self.is_queued = False
        return self.first._replace(times=self.times, is_begun=True)


class Refusals:
    """The refusals of the last minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # In the order in which they began, which is that in which they are over.
        self._known: OrderedDict[Hashable, Repeats] = OrderedDict()

    def repeated(self, key: Hashable, record: Record) -> tuple[Repeats | None, bool]:
        """
        Count a refusal; return what it repeats, and whether that is now to be written.

        None stands for a first one, which is to be inserted.
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
        """Forget all; who is refused next is the first."""
        with self._lock:
            self._known.clear()


refusals: Final = Refusals()
