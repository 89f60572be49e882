"""What a batch may do as a whole: JSON-RPC batches are part of MCP 2025-03-26 alone."""

from __future__ import annotations

from time import monotonic
from typing import Final, NamedTuple

from mcp_bridge.protocol.errors import BatchLimitError

# The least that is left for a result: any error that says why there is no other one fits.
_LEAST: Final = 1024
_ADVICE: Final = "Send it in another POST."


class BatchLimits(NamedTuple):
    """How many bytes the results of a batch have together, and for how long messages are begun."""

    max_bytes: int = 5 * 1024 * 1024
    seconds: float = 10


class Batch:
    """
    A batch that is being answered.

    ``number`` is that of the message whose turn it is, from 0, and ``bytes_left`` what is left for
    its result and those of the next ones.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self.limits = limits
        self.number = 0
        self.bytes_left = limits.max_bytes
        self._began = monotonic()

    def check(self) -> None:
        """Raise BatchLimitError where the message is not to be run; the first one always is."""
        if not self.number:
            return
        if self.bytes_left < _LEAST:
            raise BatchLimitError(
                "This request was not run: the results of its batch have the "
                f"{self.limits.max_bytes} bytes that they may have. {_ADVICE}"
            )
        if monotonic() - self._began >= self.limits.seconds:
            raise BatchLimitError(
                "This request was not run: its batch has taken the "
                f"{self.limits.seconds:g} seconds that it may take. {_ADVICE}"
            )

    def take(self, size: int) -> None:
        """Take the bytes of a result. Raises BatchLimitError where there are not so many left."""
        if size > self.bytes_left:
            raise BatchLimitError(
                f"The result is left out: it has {size} bytes, of the {self.limits.max_bytes} of "
                f"all results of a batch {self.bytes_left} are left. {_ADVICE}"
            )
        self.bytes_left -= size
