"""The chart of calls by time, above the list of calls and on the front page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db.models import Case, IntegerField, Sum, Value, When
from django.utils import timezone
from django.utils.formats import date_format, get_format, time_format

from mcp_bridge.admin.call_filters import Records, local_now, midnight
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.models.outcomes import ErrorCode, Outcome

# The days where no range is chosen; the most columns.
DAYS: Final = 14
MOST_COLUMNS: Final = 31
# The widths of a column, in the units of the chart's view box: where there are few, and many.
_WIDE, _NARROW = 44, 22
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
    width: int
    height: int


class Column(NamedTuple):
    """The calls from one time to another."""

    begin: datetime
    end: datetime
    counts: dict[str, int]


class Chart:
    """
    Calls by time; ``most`` is the highest count, ``width`` and ``height`` the view box.

    Counts the records that began between two times: without an end until now, without a beginning
    in the last days. ``link`` returns an address of the list of calls with the given parameters,
    and without those that are None.
    """

    height: Final = 100

    def __init__(
        self,
        records: Records,
        begin: datetime | None,
        end: datetime | None,
        link: Callable[[dict[str, Any]], str],
    ) -> None:
        self._make_link = link
        bounds = _bounds(begin, end)
        self.is_by_day = bounds[1] - bounds[0] > timedelta(hours=20)
        self.columns = [
            Column(begin, end, dict.fromkeys(KINDS, 0))
            for begin, end in zip(bounds, bounds[1:], strict=False)
        ]
        for place, outcome, error_code, times in self._counted(records):
            counts = self.columns[place].counts
            if outcome != Outcome.REFUSED:
                counts["calls"] += times
                if outcome in (Outcome.FAILED, Outcome.UNKNOWN):
                    counts["failures"] += times
            else:
                counts["waits" if error_code == ErrorCode.UNCONFIRMED else "refusals"] += times
        self.has_calls = any(any(each.counts.values()) for each in self.columns)
        self.most = max(1, *(max(each.counts.values()) for each in self.columns))
        self._step = _WIDE if len(self.columns) <= DAYS else _NARROW
        self.width = len(self.columns) * self._step

    @classmethod
    def of_hours(cls, hours: int, link: Callable[[dict[str, Any]], str]) -> Chart:
        """Return the chart of all calls of this hour, which has begun, and of those before it."""
        begin = local_now() - timedelta(hours=hours - 1)
        return cls(ToolCallRecord.objects.all(), begin, None, link)

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
        every, apart = ceil(len(self.columns) / DAYS), self._step // 4 - 1
        for at, column in enumerate(self.columns):
            left, bars = at * self._step, []
            for x, (kind, number) in enumerate(column.counts.items()):
                # One of many is seen as well.
                height = max(2, round(number * self.height / self.most)) if number else 0
                link = self._link(column, kind)
                place = (left + 2 + x * apart, self.height - height)
                bars.append(Count(kind, number, link, *place, apart - 1, height))
            label = self._label(column) if at % every == 0 else ""
            yield column, self._name(column), label, left + self._step // 2, bars

    def _link(self, column: Column, kind: str) -> str:
        bounds = {"since": _as_text(column.begin), "until": _as_text(column.end), "when": None}
        return self._make_link({**bounds, "outcome": OUTCOMES[kind]})

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
    step = ceil(days / MOST_COLUMNS)
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
