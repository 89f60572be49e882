"""Parse rates as people write them: "20/min"."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

_UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_SHORT: Final = {
    **{"s": "second", "sec": "second", "m": "minute", "min": "minute"},
    **{"h": "hour", "d": "day"},
}
_FORM: Final = re.compile(rf"([1-9][0-9]{{0,8}})/({'|'.join([*_UNITS, *_SHORT])})")


class Rate(NamedTuple):
    """So many calls in so many seconds, which are one ``unit``; ``text`` is how it was written."""

    calls: int
    seconds: int
    unit: str
    text: str

    def __str__(self) -> str:
        return (
            f"{self.calls} time{'s' * (self.calls > 1)} a{'n' * (self.unit == 'hour')} {self.unit}"
        )


@lru_cache(maxsize=1024)
def parse_rate(text: str) -> Rate:
    """
    Return the rate that a text such as "20/min" says; each text is parsed once.

    Raises ValueError, with the end of a sentence that begins with where the text stands.
    """
    match = _FORM.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            f"is {text!r}, which is no rate: write a number, a slash and s, min, hour or day, "
            'such as "20/min"'
        )
    unit = _SHORT.get(match[2], match[2])
    return Rate(int(match[1]), _UNITS[unit], unit, text)
