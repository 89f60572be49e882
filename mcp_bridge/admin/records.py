"""Call records on pages: texts, filters, and statistics by time and by tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from math import ceil
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import Avg, Case, F, IntegerField, Max, Q, QuerySet, Sum, When
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import date_format, time_format
from django.utils.functional import Promise
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.base import Choices, Context, with_key
from mcp_bridge.conf import conf
from mcp_bridge.models import ToolCallRecord, ToolSetting
from mcp_bridge.models.outcomes import ErrorCode, Outcome
from mcp_bridge.protocol import REVISIONS, JSONObject
from mcp_bridge.protocol.text import without_unprintable
from mcp_bridge.records.redaction import CUT, HIDDEN

Records = QuerySet[ToolCallRecord]

# Years that any database accepts in any time zone.
_YEARS: Final = range(1970, 9000)
# The users proposed, from the latest calls; other names can be typed.
_MOST_PROPOSED: Final = 200
_LATEST: Final = 2000
# Longer values include a time of day.
_A_DAY: Final = "2026-12-31"
MOMENT: Final = timedelta(microseconds=1)
# The default range in days, and the most periods that a longer range is divided into.
DAYS: Final = 7
MOST_TIMES: Final = 14
# The lengths of periods shorter than a day, in minutes.
_MINUTES: Final = (5, 15, 60, 120, 180)
# The counted kinds, and the outcome filter that lists each; "calls" are all that ran.
OUTCOMES: Final[Mapping[str, str]] = {
    "calls": "ran",
    "failures": "failed",
    "waits": "waits",
    "refusals": "refused",
}
WEEK: Final = timedelta(days=7)
RAN: Final = ~Q(outcome=Outcome.REFUSED)
FAILED: Final = Q(outcome__in=[Outcome.FAILED, Outcome.UNKNOWN])
# Calls that are or were held for confirmation.
HELD: Final = Q(outcome=Outcome.REFUSED, error_code=ErrorCode.UNCONFIRMED)
THROTTLED: Final = Q(error_code=ErrorCode.THROTTLED)
_MOST_RECENT: Final = 10


def recent_calls(setting: ToolSetting) -> Context:
    """Return the latest calls of a tool, for its page."""
    records = ToolCallRecord.objects.filter(tool=setting.name, kind=setting.kind)
    records = records.select_related("pending_call")
    return {"recent": records[:_MOST_RECENT], "is_recorded": conf.AUDIT is not None}


def recorded_arguments(key: str, setting: ToolSetting) -> JSONObject:
    """Return the recorded arguments of a tool's call, without hidden or truncated values."""
    records = ToolCallRecord.objects.filter(tool=setting.name, kind=setting.kind)
    record = with_key(records, key)
    arguments = json.loads(record.arguments or "null") if record else None
    return {
        name: value
        for name, value in (arguments.items() if isinstance(arguments, dict) else ())
        if not any(part in json.dumps(value, ensure_ascii=False) for part in (HIDDEN, CUT))
    }


def one_line(text: str, most: int) -> str:
    """Return a text on one line of at most ``most`` visible characters."""
    return Truncator(without_unprintable(" ".join(text.split()))).chars(most)


def local_now() -> datetime:
    """Return the current time in the current time zone; naive if USE_TZ is False."""
    return timezone.localtime() if settings.USE_TZ else timezone.now()


def midnight(moment: datetime, days: int = 0) -> datetime:
    """Return the beginning of a day, or of a later one."""
    day = moment + timedelta(days=days)
    return day.replace(hour=0, minute=0, second=0, microsecond=0)


# The named ranges: their labels, and their bounds at a given time.
_RANGES: Final[Mapping[str, tuple[Promise, Callable[[datetime], Any]]]] = {
    "hour": (_("Last hour"), lambda now: (now - timedelta(hours=1), None)),
    "today": (_("Today"), lambda now: (midnight(now), None)),
    "yesterday": (_("Yesterday"), lambda now: (midnight(now, -1), midnight(now))),
    "week": (_("Last 7 days"), lambda now: (midnight(now, -6), None)),
}


class RecordFilter(SimpleListFilter):
    """A filter by the conditions of its choices; rejects any other value."""

    conditions: Mapping[str, Q]
    labels: Mapping[str, Any] = {}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        wanted = self.value()
        if wanted and wanted not in self.conditions:
            raise IncorrectLookupParameters(ValueError(wanted))

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [(name, self.labels.get(name, name)) for name in self.conditions]

    def queryset(self, request: HttpRequest, queryset: Records) -> Records:
        wanted = self.value()
        return queryset.filter(self.conditions[wanted]) if wanted else queryset


class VersionFilter(RecordFilter):
    title = _("protocol version")
    parameter_name = "version"
    conditions = {version: Q(revision=version) for version in REVISIONS}


class OutcomeFilter(RecordFilter):
    """A filter by outcome, as the list shows it."""

    title = _("outcome")
    parameter_name = "outcome"
    conditions = {
        "failed": FAILED,
        "waits": HELD,
        "refused": Q(outcome=Outcome.REFUSED) & ~HELD,
        "succeeded": Q(outcome=Outcome.SUCCEEDED),
        "started": Q(outcome=Outcome.STARTED),
        "cancelled": Q(outcome=Outcome.CANCELLED),
        "ran": RAN,
    }
    labels = {
        **dict(Outcome.choices),
        "waits": _("pending approval"),
        "started": _("running"),
        "ran": _("finished"),
    }


class NameFilter(SimpleListFilter):
    """A filter by a name that is typed or selected from proposals."""

    # Other fields that its form submits.
    own = ()
    template = "mcp_bridge/admin/filter_name.html"

    def queryset(self, request: HttpRequest, queryset: Records) -> Records:
        wanted = (self.value() or "").strip()
        return queryset.filter((self.parameter_name, wanted)) if wanted else queryset

    def has_output(self) -> bool:
        return True


class ToolFilter(NameFilter):
    title = _("tool")
    parameter_name = "tool"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        names = dict.fromkeys(ToolSetting.objects.order_by("name").values_list("name", flat=True))
        return [(name, name) for name in names]


class UserFilter(NameFilter):
    title = _("user")
    parameter_name = "user_name"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        latest = ToolCallRecord.objects.order_by("-started_at").values("user_name")[:_LATEST]
        names = sorted({row["user_name"] for row in latest} - {""})
        return [(name, name) for name in names[:_MOST_PROPOSED]]


class TimeFilter(SimpleListFilter):
    """
    A filter by time: a named range, or a custom one from a day or time to another.

    ``begin`` and ``end`` are None without a bound; the end itself is excluded.
    """

    title = _("time")
    parameter_name = "when"
    own = ("since", "until")
    template = "mcp_bridge/admin/filter_time.html"

    def __init__(self, request: HttpRequest, params: dict[str, list[str]], *args: Any) -> None:
        super().__init__(request, params, *args)
        sent = {name: params.pop(name, [""])[-1].strip() for name in self.own}
        self.used_parameters |= {name: text for name, text in sent.items() if text}
        self.is_own, wanted = any(sent.values()), self.value()
        self.has_times = any(len(text) > len(_A_DAY) for text in sent.values())
        self.begin: datetime | None = None
        self.end: datetime | None = None
        try:
            if self.is_own:
                self.begin = _moment(sent["since"])
                self.end = _moment(sent["until"], is_end=True)
            elif wanted:
                self.begin, self.end = _RANGES[wanted][1](local_now())
            if self.begin and self.end and self.begin >= self.end:
                raise ValueError("The range ends before it begins")
        except (KeyError, ValueError, OverflowError) as error:
            raise IncorrectLookupParameters(error) from error

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [(name, label) for name, (label, _bounds_at) in _RANGES.items()]

    def queryset(self, request: HttpRequest, queryset: Records) -> Records:
        if self.begin:
            queryset = queryset.filter(started_at__gte=self.begin)
        return queryset.filter(started_at__lt=self.end) if self.end else queryset

    @property
    def days(self) -> str:
        """The range in a file name: "2026-11" for a month, "2026-11-02-to-2026-11-03"."""
        begin, last = self.begin, self.end - MOMENT if self.end else local_now()
        if begin is None:
            return f"{'first-to' if self.end else 'all'}-{last:%Y-%m-%d}"
        if self.end and begin.day == self.end.day == 1 and f"{begin:%Y%m}" == f"{last:%Y%m}":
            return f"{begin:%Y-%m}"
        first = "" if begin.date() == last.date() else f"{begin:%Y-%m-%d}-to-"
        return f"{first}{last:%Y-%m-%d}"


FILTERS: Final[list[Any]] = [
    *(TimeFilter, OutcomeFilter, ToolFilter, UserFilter, "error_code", VersionFilter)
]


def _moment(text: str, *, is_end: bool = False) -> datetime | None:
    """Parse a time; a day means its beginning or its end. None for an empty text."""
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None or moment.year not in _YEARS:
        raise ValueError(text)
    if is_end and len(text) <= len(_A_DAY):
        moment += timedelta(days=1)
    return timezone.make_aware(moment) if settings.USE_TZ else moment


class Time(NamedTuple):
    """The calls in one period."""

    begin: datetime
    end: datetime
    counts: dict[str, int]

    @property
    def name(self) -> str:
        day = date_format(self.begin, "SHORT_DATE_FORMAT")
        if self.end - self.begin < timedelta(days=1):
            return f"{day} {time_format(self.begin.time())}"
        last = self.end - MOMENT
        if last.date() == self.begin.date():
            return day
        return f"{day} – {date_format(last, 'SHORT_DATE_FORMAT')}"

    @property
    def numbers(self) -> Iterator[tuple[str, str, int]]:
        """The kinds of calls, each with the outcome filter that lists it, and its number."""
        return ((kind, OUTCOMES[kind], number) for kind, number in self.counts.items())


class ToolUse(NamedTuple):
    """The calls of a tool that ran; durations in milliseconds, None if unknown."""

    tool: str
    calls: int
    failures: int
    average: float | None
    longest: float | None
    last_failure: datetime | None

    @property
    def percent(self) -> int:
        # One in a thousand is not zero.
        return max(1, round(100 * self.failures / self.calls)) if self.failures else 0


class Usage:
    """
    Statistics of the records in a range, by period and by tool: two queries.

    Without an end the range ends now; without a beginning it covers the last days. ``tools`` are
    sorted by failures, then by duration.
    """

    def __init__(self, records: Records, begin: datetime | None, end: datetime | None) -> None:
        bounds = _bounds(begin, end)
        found = records.filter(started_at__gte=bounds[0], started_at__lt=bounds[-1]).order_by()
        counts = {
            kind: Sum("times", filter=OutcomeFilter.conditions[outcome], default=0)
            for kind, outcome in OUTCOMES.items()
        }
        # Without date functions, which SQLite calls in Python for each row.
        places = [When(started_at__gte=begin, then=at) for at, begin in enumerate(bounds)]
        place = Case(*reversed(places), output_field=IntegerField())
        rows: Any = found.annotate(place=place).values_list("place").annotate(**counts)
        counted = {at: dict(zip(counts, numbers, strict=True)) for at, *numbers in rows}
        none = dict.fromkeys(counts, 0)
        self.times = [
            Time(*pair, counted.get(at, none)) for at, pair in enumerate(pairwise(bounds))
        ]
        self.most = max(max(each.counts.values()) for each in self.times)
        tools = (
            found.filter(RAN)
            .values("tool")
            .annotate(
                calls=counts["calls"],
                failures=counts["failures"],
                average=Avg("duration_ms"),
                longest=Max("duration_ms"),
                last_failure=Max("started_at", filter=FAILED),
            )
        )
        ordered = tools.order_by("-failures", F("average").desc(nulls_last=True), "tool")
        self.tools = [ToolUse(**row) for row in ordered]


def _bounds(begin: datetime | None, end: datetime | None) -> list[datetime]:
    """Return the beginnings of at most MOST_TIMES periods, and the end of the last one."""
    now = local_now()
    if begin is None:
        begin = midnight(end - MOMENT if end else now, 1 - DAYS)
    end = end or max(now, begin) + MOMENT
    first = midnight(begin)
    step = timedelta(days=ceil((end - first) / timedelta(days=MOST_TIMES)))
    for minutes in _MINUTES:
        # Both ends may be within a period.
        if end - begin <= timedelta(minutes=minutes) * (MOST_TIMES - 1):
            step = timedelta(minutes=minutes)
            first += (begin - first) // step * step
            break
    bounds = [first]
    while bounds[-1] < end:
        # Times of day, which stay the same when clocks change.
        bounds.append(bounds[-1] + step)
    return bounds
