"""The results as Markdown."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from benchmarks.rounds import Results, Series
from benchmarks.scenarios import REVISION
from benchmarks.servers import THREADS, Cores

PACKAGES = ("Django", "gunicorn", "django-mcpz", "msgspec", "django-modern-rpc", "pydantic")
ACCELERATORS = ("orjson", "jsonschema-rs")
# From here on a window says more about the client than about the server.
BUSY = 0.9
LEGEND = (
    "*× floor* and *× mcpz*: the server's processor time for one operation, in times of theirs, "
    "less is better; median over the rounds, in brackets the middle half of them. *CPU*: that "
    "time. *p50*: of one client alone. The empty view is the floor: it parses, runs and dumps, and "
    "checks nothing; with a token it makes one ORM query."
)


def markdown(results: Results, cores: Cores, rounds: int, seconds: float) -> str:
    calls = {each: results[each] for each in results if each.operation != "list"}
    listings = {each: results[each] for each in results if each.operation == "list"}
    parts = ["# Results\n", conditions(cores, rounds, seconds)]
    if calls:
        parts += ["## `tools/call`\n", call_table(calls)]
    if listings:
        parts += ["## Complete listings by `tools/list`\n", listing_table(listings)]
    parts.append(LEGEND)
    if any(series.client > BUSY for each in results.values() for series in each):
        parts.append("\n† The client was busy nearly all of the time: the server may do better.")
    return "\n".join(parts) + "\n"


def conditions(cores: Cores, rounds: int, seconds: float) -> str:
    pinned = "shared by all" if cores.client is None else "servers on one, the client on another"
    found = ", ".join(f"{name} {number}" for name, number in versions(PACKAGES))
    fast = ", ".join(name for name, _ in versions(ACCELERATORS)) or "none"
    return (
        f"{platform.python_implementation()} {platform.python_version()} on {platform.system()} "
        f"({platform.machine()}), {os.cpu_count()} cores: {pinned}.\n"
        f"{found}; accelerators installed: {fast}.\n"
        f"One gunicorn worker each (gthread, {THREADS} threads, keep-alive), {THREADS} connections "
        f"in a closed loop, MCP {REVISION}.\n"
        f"Medians of {rounds} interleaved rounds of {seconds:g} s, all answers verified before.\n"
    )


def versions(names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name in names:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def call_table(results: Results) -> str:
    header = ["mode", "tool", "", "calls/s", "p50 µs", "CPU µs", "× floor", "× mcpz"]
    rows = [
        [scenario.mode, f"`{scenario.operation}`", *figures(series, contestants)]
        for scenario, contestants in results.items()
        for series in contestants
    ]
    return table(header, rows, left=3)


def listing_table(results: Results) -> str:
    header = ["mode", "tools", "", "listings/s", "p50 µs", "CPU µs", "× floor", "× mcpz"]
    header += ["pages", "KB a page", "p50 µs a page"]
    rows = [
        [scenario.mode, str(scenario.tools), *figures(series, contestants), *paging(series)]
        for scenario, contestants in results.items()
        for series in contestants
    ]
    return table(header, rows, left=3)


def figures(series: Series, contestants: list[Series]) -> list[str]:
    by_name = {each.contestant.name: each for each in contestants}
    mark = " †" if series.client > BUSY else ""
    return [
        series.contestant.title,
        f"{series.per_second:,.0f}{mark}",
        f"{series.median_us:,.0f}",
        "" if series.cpu_us is None else f"{series.cpu_us:,.0f}",
        cost(series, by_name.get("floor")),
        cost(series, by_name.get("mcpz")),
    ]


def paging(series: Series) -> list[str]:
    pages = len(series.exchanges)
    size = sum(each.size for each in series.exchanges) / pages / 1000
    return [str(pages), f"{size:,.0f}", f"{series.median_us / pages:,.0f}"]


def cost(series: Series, base: Series | None) -> str:
    if base is None:
        return ""
    if base is series:
        return "1"
    costs = series.costs(base)
    if len(costs) < 2:
        return f"{costs[0]:.2f}"
    low, middle, high = statistics.quantiles(costs, n=4, method="inclusive")
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def table(header: list[str], rows: list[list[str]], left: int) -> str:
    """A Markdown table; the first ``left`` columns are words, the others figures."""
    marks = [":--" if number < left else "--:" for number in range(len(header))]
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, marks, *rows])
