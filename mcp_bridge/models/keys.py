"""Primary keys that are made before rows are written, so that writes can be repeated safely."""

from __future__ import annotations

import random
from time import time_ns
from typing import Final
from uuid import UUID

# The bits of a key that do not depend on its time (``rand_b`` of RFC 9562, section 5.7).
TAIL_BITS: Final = 62


def uuid7(moment: int | None = None, tail: int | None = None) -> UUID:
    """
    Return the UUID of a time in microseconds since 1970, by default now (RFC 9562, section 5.7).

    UUIDs of later microseconds are greater (section 6.2, method 3). ``tail`` is random by default.
    """
    moment = time_ns() // 1000 if moment is None else moment
    return UUID(int=number(moment, random.getrandbits(TAIL_BITS) if tail is None else tail))


def number(moment: int, tail: int) -> int:
    """Return the same UUID as a 128-bit integer."""
    milliseconds, rest = divmod(moment, 1000)
    high = milliseconds << 16 | 7 << 12 | (rest << 12) // 1000
    return high << 64 | 2 << TAIL_BITS | tail
