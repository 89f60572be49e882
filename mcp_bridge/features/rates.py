"""Parse rates such as "20/min"."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

_UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_FORM: Final = re.compile("([1-9][0-9]{0,8})/(s|sec|second|m|min|minute|h|hour|d|day)")


class Rate(NamedTuple):
    """A number of calls in one ``unit`` of ``seconds``; ``text`` is the rate as written."""

    calls: int
    seconds: int
    unit: str
    text: str

    def __str__(self) -> str:
        times = "time" if self.calls == 1 else "times"
        return f"{self.calls} {times} {'an' if self.unit == 'hour' else 'a'} {self.unit}"


@lru_cache(maxsize=1024)
def parse_rate(text: str) -> Rate:
    """Return the rate of a text such as "20/min". Raises ValueError with the end of a sentence."""
    match = _FORM.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            f"is {text!r}, which is not a rate: write a number, a slash and s, min, hour or day, "
            'such as "20/min"'
        )
    unit = next(unit for unit in _UNITS if unit.startswith(match[2]))
    return Rate(int(match[1]), _UNITS[unit], unit, text)
