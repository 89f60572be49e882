"""A circuit breaker: a server that keeps failing is not asked for a while."""

from __future__ import annotations

import threading
from time import monotonic
from typing import Final

FAILURES: Final = 5
# Seconds until one call may try again.
PAUSE: Final = 30.0


class Breaker:
    """
    The failures of one server in this process.

    After FAILURES in a row it is open: no call is made. After PAUSE one call tries, and closes it
    if it succeeds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        # When the next call may try, by monotonic(), while it is open.
        self._again = 0.0

    def seconds_open(self) -> float:
        """Return the seconds until the server is asked again; 0 if this call may ask it."""
        with self._lock:
            if self._failures < FAILURES:
                return 0
            left = self._again - monotonic()
            if left > 0:
                return left
            # Others wait for this call's outcome.
            self._again = monotonic() + PAUSE
            return 0

    def note(self, *, is_failure: bool) -> None:
        """Note the end of a call."""
        with self._lock:
            self._failures = self._failures + 1 if is_failure else 0
            if self._failures >= FAILURES:
                self._again = monotonic() + PAUSE
