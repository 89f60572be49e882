"""How tools are used: the calls of a list by time and by tool, counted in one query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final, NamedTuple

from django.contrib.admin.views.main import ChangeList
from django.db.models import Case, Count, IntegerField, Max, Sum, When
from django.utils.formats import date_format, time_format

from mcp_bridge.admin.call_filters import Records, TimeFilter, local_now, midnight
from mcp_bridge.admin.records import percent_failed
from mcp_bridge.models.outcomes import ErrorCode, Outcome

# The days if no range is chosen, and the most times that a longer range is divided into.
DAYS: Final = 7
MOST_TIMES: Final = 14
# The lengths of times that are shorter than a day, in minutes.
_MINUTES: Final = (5, 15, 60, 120, 180)
# What is counted, and the filter by outcome that lists it; all that ran are "calls".
OUTCOMES: Final[Mapping[str, str]] = {
    "calls": "ran",
    "failures": "failed",
    "waits": "waits",
    "refusals": "refused",
}


class Bar(NamedTuple):
    """One number of a time, and the address of its calls."""

    kind: str
    number: int
    link: str


class Time(NamedTuple):
    """The calls from one time to another."""

    begin: datetime
    end: datetime
    counts: dict[str, int]

    @property
    def name(self) -> str:
        day = date_format(self.begin, "SHORT_DATE_FORMAT")
        if self.end - self.begin < timedelta(days=1):
            return f"{day} {time_format(self.begin.time())}"
        last = self.end - timedelta(microseconds=1)
        if last.date() == self.begin.date():
            return day
        return f"{day} – {date_format(last, 'SHORT_DATE_FORMAT')}"


@dataclass(slots=True)
class ToolUse:
    """The calls of a tool that ran; durations in milliseconds, None if none is known."""

    tool: str
    link: str
    calls: int = 0
    failures: int = 0
    last_failure: datetime | None = None
    longest: float | None = None
    measured: int = 0
    total: float = 0

    @property
    def percent(self) -> int:
        return percent_failed(self.calls, self.failures)

    @property
    def average(self) -> float | None:
        return self.total / self.measured if self.measured else None


class Usage:
    """
    The records that began between two times, by time and by tool.

    Without an end until now, without a beginning in the last days. ``link`` returns an address of
    the list of calls with the given parameters, and without those that are None. ``tools`` are
    those that failed most first, then the slowest.
    """

    def __init__(
        self,
        records: Records,
        begin: datetime | None,
        end: datetime | None,
        link: Callable[[dict[str, Any]], str],
    ) -> None:
        self._link = link
        bounds = _bounds(begin, end)
        pairs = zip(bounds, bounds[1:], strict=False)
        self.times = [Time(*pair, dict.fromkeys(OUTCOMES, 0)) for pair in pairs]
        tools: dict[str, ToolUse] = {}
        for place, tool, outcome, code, number, measured, total, longest, last in self._counted(
            records
        ):
            counts = self.times[place].counts
            if outcome == Outcome.REFUSED:
                counts["waits" if code == ErrorCode.UNCONFIRMED else "refusals"] += number
                continue
            use = tools.setdefault(tool, ToolUse(tool, link({"tool": tool})))
            counts["calls"] += number
            use.calls += number
            if outcome in (Outcome.FAILED, Outcome.UNKNOWN):
                counts["failures"] += number
                use.failures += number
                use.last_failure = max(last, use.last_failure or last)
            if measured:
                use.measured += measured
                use.total += total
                use.longest = max(longest, use.longest or 0)
        self.most = max(max(each.counts.values()) for each in self.times)
        self.tools = sorted(
            tools.values(), key=lambda use: (-use.failures, -(use.average or 0), use.tool)
        )

    def _counted(self, records: Records) -> Any:
        # Without a function of dates, which SQLite calls in Python for every row.
        places = [When(started_at__gte=each.begin, then=at) for at, each in enumerate(self.times)]
        place = Case(*reversed(places), output_field=IntegerField())
        first, last = self.times[0].begin, self.times[-1].end
        found = records.filter(started_at__gte=first, started_at__lt=last).order_by()
        counted = found.annotate(place=place).values_list("place", "tool", "outcome", "error_code")
        return counted.annotate(
            number=Sum("times"),
            measured=Count("duration_ms"),
            total=Sum("duration_ms"),
            longest=Max("duration_ms"),
            last=Max("started_at"),
        )

    @property
    def bars(self) -> Iterator[tuple[str, list[Bar]]]:
        """Yield the name of each time, with its numbers."""
        for time in self.times:
            since, until = (f"{each:%Y-%m-%dT%H:%M}" for each in (time.begin, time.end))
            shown = {"since": since, "until": until, "when": None}
            yield (
                time.name,
                [
                    Bar(kind, number, self._link({**shown, "outcome": OUTCOMES[kind]}))
                    for kind, number in time.counts.items()
                ],
            )


def usage(changelist: ChangeList) -> Usage:
    """Return the usage of the calls that a list shows."""
    shown = time_filter(changelist)
    return Usage(changelist.queryset, shown.begin, shown.end, changelist.get_query_string)


def time_filter(changelist: ChangeList) -> TimeFilter:
    """Return the filter by time of a list."""
    return next(each for each in changelist.filter_specs if isinstance(each, TimeFilter))


def _bounds(begin: datetime | None, end: datetime | None) -> list[datetime]:
    """Return where the times of a range begin, MOST_TIMES at most, and where the last one ends."""
    now, moment = local_now(), timedelta(microseconds=1)
    if begin is None:
        begin = midnight(end - moment if end else now, 1 - DAYS)
    end = end or max(now, begin) + moment
    first = midnight(begin)
    step = timedelta(days=ceil((end - first) / timedelta(days=MOST_TIMES)))
    for minutes in _MINUTES:
        # Both ends may be within a time.
        if end - begin <= timedelta(minutes=minutes) * (MOST_TIMES - 1):
            step = timedelta(minutes=minutes)
            first += (begin - first) // step * step
            break
    bounds = [first]
    while bounds[-1] < end:
        # Times of day, which stay the same when clocks change.
        bounds.append(bounds[-1] + step)
    return bounds
