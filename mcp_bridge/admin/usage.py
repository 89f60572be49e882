"""Numbers from the records: how often tools are called, how often they fail, how long they take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from django.db.models import Avg, Count, Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import TruncDate
from django.utils import timezone

from mcp_bridge.calls.outcomes import Outcome
from mcp_bridge.models import ToolCallRecord, ToolSetting

# The number of days in the chart, and of tools in each of the tables.
DAYS: Final = 14
MOST: Final = 5
WEEK: Final = timedelta(days=7)
_RAN: Final = ~Q(outcome=Outcome.REFUSED)
_FAILED: Final = Q(outcome__in=[Outcome.FAILED, Outcome.UNKNOWN])
# The chart, in the units of its view box.
_HEIGHT: Final = 100
_STEP: Final = 40
_BAR: Final = 12


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of the chart: the count that it stands for, and its rectangle."""

    kind: str
    count: int
    x: int
    y: int
    height: int
    width: int = _BAR - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """One day of the chart."""

    day: date
    calls: int = 0
    failures: int = 0
    refusals: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The last days; ``most`` is the highest count, ``width`` and ``height`` the view box."""

    days: list[Day]
    most: int
    width: int = DAYS * _STEP
    height: int = _HEIGHT

    @property
    def columns(self) -> Iterator[tuple[Day, int, list[Bar]]]:
        """Yield each day with the middle of its column, and its bars."""
        for left, day in zip(range(0, self.width, _STEP), self.days, strict=True):
            counts = {"calls": day.calls, "failures": day.failures, "refusals": day.refusals}
            bars = []
            for x, (kind, count) in enumerate(counts.items()):
                # One of many is seen as well.
                height = max(2, round(count * _HEIGHT / self.most)) if count else 0
                bars.append(Bar(kind, count, left + 2 + x * _BAR, _HEIGHT - height, height))
            yield day, left + _STEP // 2, bars


def chart() -> Chart:
    """Return the calls, failures and refusals of each of the last DAYS days; one query."""
    today = timezone.localdate()
    wanted = [today - timedelta(days=DAYS - 1 - each) for each in range(DAYS)]
    begin = timezone.now() - timedelta(days=DAYS)
    rows = ToolCallRecord.objects.filter(started_at__gte=begin).order_by()
    counted = (
        rows.annotate(day=TruncDate("started_at"))
        .values("day")
        .annotate(
            calls=Count("pk", filter=_RAN),
            failures=Count("pk", filter=_FAILED),
            refusals=Count("pk", filter=~_RAN),
        )
    )
    found = {row["day"]: Day(**row) for row in counted}
    days = [found.get(day, Day(day=day)) for day in wanted]
    return Chart(days=days, most=max(1, *(max(day.calls, day.refusals) for day in days)))


def rankings() -> dict[str, list[dict[str, Any]]]:
    """Return the "slowest" and the most "failing" tools of the last week; one query."""
    rows = ToolCallRecord.objects.filter(_RAN, started_at__gte=timezone.now() - WEEK).order_by()
    counted = rows.values("tool").annotate(
        calls=Count("pk"),
        failures=Count("pk", filter=_FAILED),
        mean=Avg("duration_ms"),
        longest=Max("duration_ms"),
    )
    tools: list[dict[str, Any]] = [dict(row) for row in counted.order_by("tool")]
    timed = [row for row in tools if row["mean"] is not None]
    failing = [row for row in tools if row["failures"]]
    return {
        "slowest": sorted(timed, key=lambda row: -row["mean"])[:MOST],
        "failing": sorted(failing, key=lambda row: -row["failures"])[:MOST],
    }


def with_usage(settings: QuerySet[ToolSetting]) -> QuerySet[ToolSetting]:
    """Annotate rows of tools with ``last_called``, ``week_calls`` and ``week_failures``."""
    records = ToolCallRecord.objects.filter(_RAN, tool=OuterRef("name"))
    week = records.filter(started_at__gte=timezone.now() - WEEK).order_by().values("tool")
    return settings.annotate(
        last_called=Subquery(records.order_by("-started_at").values("started_at")[:1]),
        week_calls=Subquery(week.annotate(count=Count("pk")).values("count")),
        week_failures=Subquery(week.annotate(count=Count("pk", filter=_FAILED)).values("count")),
    )
