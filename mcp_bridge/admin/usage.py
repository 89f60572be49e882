"""The chart of the calls that the list shows, and their tools with how long they took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.contrib.admin.views.main import ChangeList
from django.db.models import Case, IntegerField, Sum, Value, When
from django.utils import timezone
from django.utils.formats import date_format, get_format, time_format

from mcp_bridge.admin.base import Context
from mcp_bridge.admin.call_filters import Records, TimeFilter, local_now, midnight
from mcp_bridge.admin.records import RAN
from mcp_bridge.calls.outcomes import ErrorCode, Outcome

# The days in the chart where no range is chosen; those of the tools; the most bars; the tools.
DAYS: Final = 14
TOOLS_DAYS: Final = 7
MOST_BARS: Final = 31
MOST_TOOLS: Final = 10
# The latest calls by which tools are compared: of all, a large table would take seconds.
SAMPLE: Final = 10_000
# The widths of a column and of a bar, in the units of the chart's view box.
_STEP: Final = 44
_BAR: Final = 10
# The lengths of columns that are shorter than a day, in minutes.
_MINUTES: Final = (5, 15, 60, 180)
# Which bar counts a record, by its outcome; all that ran are "calls" too.
KINDS: Final = ("calls", "failures", "waits", "refusals")
OUTCOMES: Final = {"calls": "ran", "failures": "failed", "waits": "waits", "refusals": "refused"}


class Count(NamedTuple):
    """One number of a column: its kind, where its calls are listed, and its rectangle."""

    kind: str
    number: int
    link: str
    x: int
    y: int
    height: int
    width: int = _BAR - 1


class Column(NamedTuple):
    """The calls from one time to another."""

    begin: datetime
    end: datetime
    counts: dict[str, int]


class Chart:
    """
    Calls by time; ``most`` is the highest count, ``width`` and ``height`` the view box.

    The records are those of a list, with its filters; without a range of time, of the last days.
    """

    height: Final = 100

    def __init__(self, changelist: ChangeList) -> None:
        self.changelist = changelist
        self.filter = time_filter(changelist)
        bounds = _bounds(self.filter.begin, self.filter.end)
        self.is_by_day = bounds[1] - bounds[0] > timedelta(hours=20)
        self.columns = [
            Column(begin, end, dict.fromkeys(KINDS, 0))
            for begin, end in zip(bounds, bounds[1:], strict=False)
        ]
        for place, outcome, error_code, times in self._counted(changelist.queryset):
            counts = self.columns[place].counts
            if outcome != Outcome.REFUSED:
                counts["calls"] += times
                if outcome in (Outcome.FAILED, Outcome.UNKNOWN):
                    counts["failures"] += times
            else:
                counts["waits" if error_code == ErrorCode.UNCONFIRMED else "refusals"] += times
        self.most = max(1, *(max(each.counts.values()) for each in self.columns))
        self.width = len(self.columns) * _STEP

    def _counted(self, records: Records) -> Any:
        """Return the number of records by column and outcome, in one query."""
        first, last = self.columns[0], self.columns[-1]
        begins = [each.begin for each in self.columns]
        # Without a function of dates, which SQLite calls in Python for every row.
        places = [When(started_at__gte=each, then=Value(at)) for at, each in enumerate(begins)]
        place = Case(*reversed(places), output_field=IntegerField())
        found = records.filter(started_at__gte=first.begin, started_at__lt=last.end).order_by()
        counted = found.annotate(place=place).values_list("place", "outcome", "error_code")
        return counted.annotate(number=Sum("times"))

    @property
    def drawn(self) -> Iterator[tuple[Column, str, str, int, list[Count]]]:
        """Yield each column with its full name, its short one or "", its middle, and its bars."""
        every = ceil(len(self.columns) / 14)
        for at, column in enumerate(self.columns):
            left, bars = at * _STEP, []
            for x, (kind, number) in enumerate(column.counts.items()):
                # One of many is seen as well.
                height = max(2, round(number * self.height / self.most)) if number else 0
                link = self._link(column, kind)
                place = (left + 2 + x * _BAR, self.height - height, height)
                bars.append(Count(kind, number, link, *place))
            label = self._label(column) if at % every == 0 else ""
            yield column, self._name(column), label, left + _STEP // 2, bars

    def _link(self, column: Column, kind: str) -> str:
        bounds = {"since": _as_text(column.begin), "until": _as_text(column.end), "when": None}
        return self.changelist.get_query_string({**bounds, "outcome": OUTCOMES[kind]})

    def _label(self, column: Column) -> str:
        # In the order of the site's dates, with the month cut short as the place is narrow.
        day = get_format("MONTH_DAY_FORMAT").replace("F", "M")
        return date_format(column.begin, day if self.is_by_day else "H:i")

    def _name(self, column: Column) -> str:
        day = date_format(column.begin, "SHORT_DATE_FORMAT")
        if not self.is_by_day:
            return f"{day} {time_format(column.begin.time())}"
        last = column.end - timedelta(microseconds=1)
        if last.date() == column.begin.date():
            return day
        return f"{day} – {date_format(last, 'SHORT_DATE_FORMAT')}"


class ToolUse(NamedTuple):
    """How a tool was used; the durations, in milliseconds, are None where none is known."""

    tool: str
    calls: int
    failures: int
    # Of half of the calls, and of 95 of 100, none took longer.
    p50: float | None
    p95: float | None
    longest: float | None
    link: str

    @property
    def rate(self) -> int:
        """Return how many of a hundred calls failed."""
        return round(100 * self.failures / self.calls)


def tools_used(changelist: ChangeList) -> list[ToolUse]:
    """Return the tools of the latest calls in a list: the most failing first, then the slowest."""
    records = changelist.queryset.filter(RAN)
    begin = time_filter(changelist).begin
    if begin is None and time_filter(changelist).end is None:
        records = records.filter(started_at__gte=midnight(local_now(), 1 - TOOLS_DAYS))
    latest = records.order_by("-started_at").values_list("tool", "outcome", "duration_ms")
    durations: dict[str, list[float]] = defaultdict(list)
    calls: dict[str, int] = defaultdict(int)
    failures: dict[str, int] = defaultdict(int)
    for tool, outcome, duration in latest[:SAMPLE]:
        calls[tool] += 1
        failures[tool] += outcome in (Outcome.FAILED, Outcome.UNKNOWN)
        if duration is not None:
            durations[tool].append(duration)
    found = []
    for tool, count in calls.items():
        taken = sorted(durations[tool])
        link = changelist.get_query_string({"tool": tool})
        longest = taken[-1] if taken else None
        p50, p95 = percentile(taken, 50), percentile(taken, 95)
        found.append(ToolUse(tool, count, failures[tool], p50, p95, longest, link))
    found.sort(key=lambda each: (-each.failures, -(each.p95 or 0), each.tool))
    return found[:MOST_TOOLS]


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Return the value of sorted ones that a percentage of them is not above (nearest rank)."""
    return values[ceil(len(values) * percent / 100) - 1] if values else None


def usage(changelist: ChangeList) -> Context:
    """Return what the template of the list shows above it."""
    return {"chart": Chart(changelist), "tools_used": tools_used(changelist)}


def time_filter(changelist: ChangeList) -> TimeFilter:
    """Return the filter by time of a list."""
    return next(each for each in changelist.filter_specs if isinstance(each, TimeFilter))


def _bounds(begin: datetime | None, end: datetime | None) -> list[datetime]:
    """Return where the columns of a range begin, and where the last one ends."""
    now = local_now()
    if begin is None:
        begin = midnight(end - timedelta(microseconds=1) if end else now, 1 - DAYS)
    end = end or max(now, begin) + timedelta(microseconds=1)
    minutes = (end - begin) / timedelta(minutes=1)
    for each in _MINUTES:
        if minutes / each <= 26:
            return _by_minutes(begin, end, each)
    days = ceil(minutes / (24 * 60))
    step = ceil(days / MOST_BARS)
    bounds = [midnight(begin)]
    while bounds[-1] < end:
        bounds.append(midnight(bounds[-1], step))
    return bounds


def _by_minutes(begin: datetime, end: datetime, step: int) -> list[datetime]:
    first = midnight(begin)
    past = int((begin - first) / timedelta(minutes=step))
    # Of the world's clock: a day may have 23 or 25 hours.
    bounds = [_plus(first, past * step)]
    while bounds[-1] < end:
        bounds.append(_plus(bounds[-1], step))
    return bounds


def _plus(moment: datetime, minutes: int) -> datetime:
    later = timedelta(minutes=minutes)
    if not settings.USE_TZ:
        return moment + later
    return timezone.localtime(moment.astimezone(UTC) + later)


def _as_text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M")
