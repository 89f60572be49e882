"""
Refusals that repeat one of the last minute, which are counted on its row and do not fill the table.

Each process counts its own. What is counted is bounded, as is for how long.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

# Seconds from a first refusal in which others are counted as its repetitions.
WINDOW: Final = 60.0
# The refusals that are known at once; of any more, the oldest is forgotten.
MOST: Final = 10_000


@dataclass(slots=True, eq=False)
class Repeats:
    """The refusals that repeat a first one, whose record is ``first``."""

    first: Mapping[str, Any]
    until: float
    # The last record, the number not written yet, and the number being written.
    last: Mapping[str, Any]
    times: int = 0
    taken: int = 0
    is_queued: bool = False


class Refusals:
    """The refusals of the last minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # In the order in which they began, which is that in which they are over.
        self._known: OrderedDict[Hashable, Repeats] = OrderedDict()

    def repeated(self, key: Hashable, record: Mapping[str, Any]) -> tuple[Repeats | None, bool]:
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
                self._known[key] = Repeats(first=record, until=now + WINDOW, last=record)
                return None, False
            is_due, known.is_queued = not known.is_queued, True
            known.last, known.times = record, known.times + 1
            return known, is_due

    @contextmanager
    def written(self, repeats: Repeats) -> Iterator[int]:
        """Yield how many are to be written; those of a block that raises are written later."""
        with self._lock:
            times, repeats.times, repeats.is_queued = repeats.times, 0, False
            repeats.taken += times
        is_written = False
        try:
            yield times
            is_written = True
        finally:
            with self._lock:
                repeats.taken -= times
                repeats.times += 0 if is_written else times

    def clear(self) -> None:
        """Forget all; who is refused next is the first."""
        with self._lock:
            self._known.clear()


refusals: Final = Refusals()
