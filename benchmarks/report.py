"""A run as Markdown, made from the figures that results.json keeps."""

from __future__ import annotations

import statistics
from itertools import groupby
from typing import Any

from benchmarks.contestants import THREADS
from benchmarks.figures import cost, speed
from benchmarks.targets import TARGETS, Run

# From here on a window says more about the client than about the server.
BUSY = 0.9
LEGEND = (
    "*× view* and *× mcpz*: operations a second, in times of those of the empty view (with orjson "
    "where that is measured) and of django-mcpz, more is better; *CPU ×* the server's processor "
    "time for one operation in times of the first contestant's of the table, less is better. "
    "Medians over the rounds, in brackets the middle half of them. *p50*: of one client alone. The "
    "empty view parses, runs and dumps, and checks nothing; with a token it makes one ORM query, "
    "and its acting tool has a transaction."
)
TITLES = {
    "calls": "Calls",
    "settings": "Calls, by setting",
    "acting": "An acting tool",
    "writers": "An acting tool, eight connections at once",
    "listing": "Complete listings by `tools/list`",
    "growth": "Many tools",
    "servers": "gunicorn and granian",
    "direct": "The direct lane",
}


def markdown(run: Run) -> str:
    parts = ["# Results\n", conditions(run)]
    parts += ["## Targets\n", target_table(run)]
    for group, rows in groupby(run["series"], lambda row: row["group"]):
        parts += [f"## {TITLES[group]}\n", series_table(list(rows))]
    if run["start"]:
        parts += ["## Start and memory\n", start_table(run["start"])]
    parts += [f"{LEGEND}\n", *run["texts"]]
    return "\n".join(parts)


def conditions(run: Run) -> str:
    head = run["head"]
    pinned = "servers on one, the client on another" if head["pinned"] else "shared by all"
    found = ", ".join(f"{name} {number}" for name, number in head["packages"].items())
    lines = [
        f"{head['python']} on {head['system']}, {head['cores']} cores: {pinned}; load average "
        f"before the run {head['load']} (0 is a quiet machine).",
        f"{found}.",
        f"SQLite in WAL with `synchronous = NORMAL`, unless said otherwise; {head['database']}.",
        f"One worker each; gunicorn gthread, {THREADS} threads, {THREADS} connections in a closed "
        f"loop unless said otherwise, keep-alive; granian one blocking thread; MCP "
        f"{head['revision']}.",
        f"Medians of {head['rounds']} interleaved rounds of {head['seconds']:g} s, all answers "
        "verified before.",
        *(f"Left out: {sentence}" for sentence in run["left_out"]),
    ]
    return "\n".join(f"* {line}" for line in lines) + "\n"


def target_table(run: Run) -> str:
    header = ["work", "beside", "target", "measured", "by processor time", ""]
    rows = []
    for target in TARGETS:
        outcome = target.find(run)
        words = [target.work, target.beside, target.wanted]
        if outcome is None:
            rows.append([*words, "not measured", "", ""])
            continue
        processor = "" if outcome.by_processor is None else f"{outcome.by_processor:.2f}"
        met = "met" if target.is_met(outcome) else "**missed**"
        rows.append([*words, str(outcome.ratio), processor, met])
    return table(header, rows, left=3)


def series_table(rows: list[dict[str, Any]]) -> str:
    header = ["mode", "work", "", "a second", "p50 µs", "CPU µs", "× view", "× mcpz", "CPU ×"]
    paged = any(row["operation"] in ("list", "page") for row in rows)
    header += ["pages", "KB"] if paged else []
    lines = []
    for _, same in groupby(rows, lambda row: (row["mode"], row["operation"], row["tools"])):
        beside = list(same)
        lines += [line(row, beside, paged) for row in beside]
    return table(header, lines, left=3)


def line(row: dict[str, Any], beside: list[dict[str, Any]], paged: bool) -> list[str]:
    view = like(row, "floor-orjson", beside) or like(row, "floor", beside)
    mcpz, first = like(row, "mcpz", beside), beside[0]
    work = f"`{row['operation']}`"
    if row["operation"] in ("list", "page") and row["group"] != "growth":
        work = f"{row['operation']} of {row['tools']:,}"
    mark = " †" if row["client"] > BUSY else ""
    cpu = [each for each in row["cpu_us"] if each is not None]
    alone = [each for each in row["median_us"] if each is not None]
    cells = [
        *(row["mode"], work, row["title"]),
        f"{statistics.median(row['per_second']):,.0f}{mark}",
        f"{statistics.median(alone):,.0f}",
        f"{statistics.median(cpu):,.0f}" if cpu else "",
        "" if view is None else "1" if view is row else str(speed(row, view)),
        "" if mcpz is None else "1" if mcpz is row else str(speed(row, mcpz)),
        "1" if first is row else f"{cost(row, first).middle:.2f}",
    ]
    return [*cells, str(row["pages"]), f"{row['bytes'] / 1000:,.0f}"] if paged else cells


def like(row: dict[str, Any], name: str, beside: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The row of a contestant on the same server and database as ``row``'s; or as it is."""
    by_name = {each["contestant"]: each for each in beside}
    _, dash, place = row["contestant"].rpartition("-")
    return by_name.get(f"{name}{dash}{place}") or by_name.get(name)


def start_table(rows: list[dict[str, Any]]) -> str:
    header = ["tools", "", "seconds to the first answer", "MB"]
    lines = []
    for row in rows:
        known = [each for each in row["megabytes"] if each is not None]
        megabytes = f"{statistics.median(known):.0f}" if known else "cannot be read here"
        seconds = f"{statistics.median(row['seconds']):.2f}"
        lines.append([f"{row['tools']:,}", row["title"], seconds, megabytes])
    return table(header, lines, left=2)


def table(header: list[str], rows: list[list[str]], left: int) -> str:
    """A Markdown table; the first ``left`` columns are words, the others figures."""
    marks = [":--" if number < left else "--:" for number in range(len(header))]
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, marks, *rows])
