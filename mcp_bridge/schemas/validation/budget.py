"""What one check may cost: counted in steps, so that it is the same on every machine."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


class TooMuchWork(Exception):
    """A check has used up the steps it may take."""


@dataclass(slots=True)
class Budget:
    """
    What one check may still cost: ``left`` counts down, in steps of a few microseconds.

    ``validators`` are those of the schema's parts, by the id of the part, for all checks against
    it; None where a part means another thing in each place ($dynamicRef).
    """

    left: int
    validators: dict[int, Any] | None = None


_current: ContextVar[Budget | None] = ContextVar("mcp_bridge_budget", default=None)


def allow(budget: Budget) -> None:
    """Let what is checked from here on, in this context, cost that much."""
    _current.set(budget)


def current() -> Budget | None:
    """The budget of the check that runs, or None where nothing is counted."""
    return _current.get()


def spend(steps: int) -> None:
    """Count steps. Raises TooMuchWork once there are none left."""
    budget = _current.get()
    if budget is not None:
        budget.left -= steps
        if budget.left < 0:
            raise TooMuchWork("checking it takes too many steps")
