"""What the bridge is to reach, as ratios within one run, and whether it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from benchmarks import starting
from benchmarks.figures import Ratio, above, cost, speed

Run = dict[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A figure, and by processor time where that is another way to see it."""

    ratio: Ratio
    by_processor: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """``find`` gives the figure of a run, or None where the run has not measured it."""

    work: str
    beside: str
    limit: float
    find: Callable[[Run], Outcome | None]
    at_most: bool = False
    unit: str = "×"

    @property
    def wanted(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.limit:g} {self.unit}"

    def is_met(self, outcome: Outcome) -> bool:
        middle = outcome.ratio.middle
        return middle <= self.limit if self.at_most else middle >= self.limit


def row_of(run: Run, group: str, mode: str, operation: str, tools: int, name: str) -> Row | None:
    key = (group, mode, operation, tools, name)
    names = ("group", "mode", "operation", "tools", "contestant")
    return next((row for row in run["series"] if tuple(row[each] for each in names) == key), None)


def faster(*place: Any, one: str, other: str) -> Callable[[Run], Outcome | None]:
    """Operations a second of one contestant in times of another's."""

    def find(run: Run) -> Outcome | None:
        row, base = row_of(run, *place, one), row_of(run, *place, other)
        if row is None or base is None:
            return None
        measured = None not in (*row["cpu_us"], *base["cpu_us"])
        return Outcome(speed(row, base), cost(base, row).middle if measured else None)

    return find


def cheaper(*place: Any, one: str, other: str) -> Callable[[Run], Outcome | None]:
    """
    The same by processor time, for servers that answer faster than the client can ask.

    Operations a second would make them as slow as the client is.
    """

    def find(run: Run) -> Outcome | None:
        row, base = row_of(run, *place, one), row_of(run, *place, other)
        return None if row is None or base is None else Outcome(cost(base, row))

    return find


def dearer(*place: Any, one: str, other: str) -> Callable[[Run], Outcome | None]:
    """The cost of one contestant's operation in times of another's."""

    def find(run: Run) -> Outcome | None:
        row, base = row_of(run, *place, one), row_of(run, *place, other)
        return None if row is None or base is None else Outcome(cost(row, base))

    return find


def at_start(figure: str, tools: int) -> Callable[[Run], Outcome | None]:
    """By how much the bridge's figure at its start is above the empty view's."""

    def find(run: Run) -> Outcome | None:
        rows = {row["contestant"]: row for row in run["start"] if row["tools"] == tools}
        if not {"bridge", "floor-orjson"} <= rows.keys():
            return None
        ratio = above(rows["bridge"][figure], rows["floor-orjson"][figure])
        return None if ratio is None else Outcome(ratio)

    return find


def _calls() -> list[Target]:
    place, found = ("calls", "anonymous"), []
    names = {"add": "`add`", "echo": "`echo`", "count_users": "an ORM query"}
    for operation, recorded, unrecorded in (
        ("add", 0.85, 0.92),
        ("echo", 0.80, 0.88),
        ("count_users", 0.85, 0.92),
    ):
        for name, words, beside, base, limit in (
            ("bridge", "as shipped", "the empty view", "floor-orjson", recorded),
            ("bridge-unrecorded", "`AUDIT = None`", "the empty view", "floor-orjson", unrecorded),
            ("bridge", "as shipped", "django-mcpz", "mcpz", 1),
        ):
            find = faster(*place, operation, 100, one=name, other=base)
            found.append(Target(f"{names[operation]}, {words}", beside, limit, find))
    return found


def _with_token() -> list[Target]:
    place, acting = ("calls", "token", "add", 100), ("acting", "token", "note", 10)
    view = "a view with its own transaction and token query"
    shipped = faster(*place, one="bridge", other="mcpz")
    unrecorded = faster(*place, one="bridge-unrecorded", other="mcpz")
    sqlite = faster(*acting, one="bridge", other="floor-orjson")
    postgresql = faster(*acting, one="bridge-postgresql", other="floor-orjson-postgresql")
    permitted = faster("listing", "permissions", "list", 1000, one="bridge", other="mcpz")
    return [
        Target(
            "`add` with a token, as shipped", "django-mcpz, which records nothing", 1.8, shipped
        ),
        Target("`add` with a token, `AUDIT = None`", "django-mcpz", 2.4, unrecorded),
        Target("an acting tool with token and records, SQLite (WAL)", view, 0.6, sqlite),
        Target("an acting tool with token and records, PostgreSQL", view, 0.6, postgresql),
        Target("list of 1,000 by permission, with a token", "django-mcpz", 4, permitted),
    ]


def _growth() -> list[Target]:
    same = "the empty view, same bytes"
    call = dearer("growth", "anonymous", "add", 100, one="bridge-1000", other="bridge-10")
    page = dearer("growth", "anonymous", "page", 100, one="bridge-10000", other="bridge-1000")
    found = [
        Target(
            f"list of {count:,}, anonymous",
            same,
            limit,
            faster("listing", "anonymous", "list", count, one="bridge", other="floor-orjson"),
        )
        for count, limit in ((100, 1.05), (1000, 1.5))
    ]
    return [
        *found,
        Target("cost of a call at 1,000 tools", "at 10 tools", 1.1, call, at_most=True),
        Target("cost of a page at 10,000 tools", "at 1,000 tools", 1.1, page, at_most=True),
    ]


def _starting() -> list[Target]:
    found = []
    for figure, words, unit, limits in (
        ("seconds", "start to the first answer", "s", (0.25, 0.8)),
        ("megabytes", "memory", "MB", (15, 30)),
    ):
        for count, limit in zip(starting.COUNTS, limits, strict=True):
            work, find = f"{words}, {count:,} tools", at_start(figure, count)
            above_it = "above the empty view"
            found.append(Target(work, above_it, limit, find, at_most=True, unit=unit))
    return found


def _servers() -> list[Target]:
    direct, granian = ("direct", "anonymous"), ("servers", "anonymous", "add", 100)
    mcpz = "django-mcpz on granian"
    add = cheaper(*direct, "add", 100, one="lane", other="bare")
    listing = cheaper(*direct, "list", 100, one="lane", other="bare")
    sync = faster(*direct, "add", 100, one="lane-sync", other="floor-orjson")
    view = faster(*granian, one="bridge-granian", other="mcpz-granian")
    lane = faster(*granian, one="lane-granian-asgi", other="mcpz-granian")
    return [
        Target("direct lane, `async def` tool", "bare ASGI, by processor time", 0.4, add),
        Target("direct lane, list of 100", "bare ASGI, by processor time", 0.5, listing),
        Target("direct lane, `def` tool", "the empty view on gunicorn", 2, sync),
        Target("`add` on granian, as shipped", mcpz, 1.3, view),
        Target("`add` on granian by the direct lane", mcpz, 1.3, lane),
    ]


TARGETS: Final = (*_calls(), *_with_token(), *_growth(), *_starting(), *_servers())
