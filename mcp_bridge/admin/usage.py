"""The chart of the calls that the list shows, and their tools with how long they took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import ceil
from typing import Final, NamedTuple

from django.contrib.admin.views.main import ChangeList

from mcp_bridge.admin.base import Context
from mcp_bridge.admin.call_filters import TimeFilter, local_now, midnight
from mcp_bridge.admin.chart import Chart
from mcp_bridge.admin.records import RAN, percent_failed
from mcp_bridge.models.outcomes import Outcome

# The days of the tools where no range is chosen, and the most tools.
TOOLS_DAYS: Final = 7
MOST_TOOLS: Final = 10
# The latest calls by which tools are compared: of all, a large table would take seconds.
SAMPLE: Final = 10_000


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
    def percent(self) -> int:
        return percent_failed(self.calls, self.failures)


def tools_used(changelist: ChangeList) -> list[ToolUse]:
    """Return the tools of the latest calls in a list: the most failing first, then the slowest."""
    records = changelist.queryset.filter(RAN)
    if not _has_range(changelist):
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
    shown = time_filter(changelist)
    chart = Chart(changelist.queryset, shown.begin, shown.end, changelist.get_query_string)
    return {
        "chart": chart,
        "tools_used": tools_used(changelist),
        "tools_days": None if _has_range(changelist) else TOOLS_DAYS,
        "tools_sample": SAMPLE,
    }


def time_filter(changelist: ChangeList) -> TimeFilter:
    """Return the filter by time of a list."""
    return next(each for each in changelist.filter_specs if isinstance(each, TimeFilter))


def _has_range(changelist: ChangeList) -> bool:
    shown = time_filter(changelist)
    return shown.begin is not None or shown.end is not None
