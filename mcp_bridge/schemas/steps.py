"""
The steps that reading a value may take: those of unions that may contain themselves.

Such a union reads what is inside a value once for each of its branches, at every depth: what is
forty levels deep would take longer than anybody waits. A discriminator tells which branch is meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

T = TypeVar("T")

UNCHECKABLE: Final = "cannot be checked: it is too large or too deep; send less"
# About a tenth of a second; what a union of many branches needs for each value; and at most about
# a second, since a step takes up to 10 microseconds.
_LEAST: Final = 10_000
_EACH: Final = 16
_MOST: Final = 100_000


class TooManyStepsError(Exception):
    """A value cannot be read in the steps that there are. No ValueError, which pydantic keeps."""


_left: ContextVar[list[int] | None] = ContextVar("mcp_bridge_steps", default=None)


@contextmanager
def limited_steps(values: int) -> Iterator[None]:
    """Have count_step() raise TooManyStepsError once it was called too often for so many values."""
    token = _left.set([min(_LEAST + _EACH * values, _MOST)])
    try:
        yield
    finally:
        _left.reset(token)


def count_step(value: T) -> T:
    """Return the value, and count one step where steps are limited."""
    left = _left.get()
    if left is not None:
        left[0] -= 1
        if left[0] < 0:
            raise TooManyStepsError
    return value
