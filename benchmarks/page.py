"""
``python -m benchmarks.page``: put a run's tables and charts into docs/project/performance.md.

The tables stand between markers, so that the next run replaces them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.charts import draw
from benchmarks.figures import speed
from benchmarks.report import conditions, series_table, start_table, table, target_table
from benchmarks.servers import ROOT
from benchmarks.targets import Run, row_of

RESULTS: Final = Path(__file__).with_name("results.json")
PAGE: Final = ROOT / "docs" / "project" / "performance.md"
BLOCK: Final = re.compile(r"(<!-- measured: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

_CALLS: Final = ("calls", "anonymous")
_TOKEN: Final = ("calls", "token")
_SERVERS: Final = ("servers", "anonymous")
_SETTINGS: Final = ("settings", "anonymous")
_ACTING: Final = ("acting", "token", "note", 10)
_WRITERS: Final = ("writers", "token", "note", 10)
# What an owner can choose: for which work, where that is measured, and beside which contestant.
CHOICES: Final[tuple[tuple[str, str, tuple[Any, ...], str, str], ...]] = (
    ("granian rather than gunicorn", "`add`", (*_SERVERS, "add", 100), "bridge-granian", "bridge"),
    ("", "list of 100", (*_SERVERS, "list", 100), "bridge-granian", "bridge"),
    (
        "the direct lane on granian rather than gunicorn",
        "`add`, `async def`",
        (*_SERVERS, "add", 100),
        "lane-granian-asgi",
        "bridge",
    ),
    (
        "WAL, IMMEDIATE and NORMAL rather than SQLite's defaults",
        "`add`",
        (*_CALLS, "add", 100),
        "bridge",
        "bridge-default",
    ),
    ("", "an acting tool", _ACTING, "bridge", "bridge-default"),
    ("", "the same, eight at once", _WRITERS, "bridge", "bridge-default"),
    (
        "PostgreSQL rather than SQLite in WAL",
        "an acting tool",
        _ACTING,
        "bridge-postgresql",
        "bridge",
    ),
    ("", "the same, eight at once", _WRITERS, "bridge-postgresql", "bridge"),
    (
        '`AUDIT["WRITE"] = "together"` rather than `"now"`',
        "`add`",
        (*_SETTINGS, "add", 100),
        "bridge",
        "bridge-now",
    ),
    (
        "`AUDIT = None` rather than records",
        "`add`",
        (*_CALLS, "add", 100),
        "bridge-unrecorded",
        "bridge",
    ),
    ("", "`add` with a token", (*_TOKEN, "add", 100), "bridge-unrecorded", "bridge"),
    ("", "an acting tool", _ACTING, "bridge-unrecorded", "bridge"),
)


def choices(run: Run) -> str:
    """What each choice gives, as operations a second in times of those without it."""
    rows = []
    for choice, work, place, name, other in CHOICES:
        row, base = row_of(run, *place, name), row_of(run, *place, other)
        given = "not measured" if row is None or base is None else f"× {speed(row, base)}"
        rows.append([choice, work, given])
    return table(["choice", "work", "a second"], rows, left=2)


def group(*names: str) -> Callable[[Run], str]:
    def tables(run: Run) -> str:
        return series_table([row for row in run["series"] if row["group"] in names])

    return tables


TABLES: Final[dict[str, Callable[[Run], str]]] = {
    "conditions": conditions,
    "targets": target_table,
    "choices": choices,
    "start": lambda run: start_table(run["start"]),
    **{name: group(name) for name in ("calls", "settings", "acting", "writers", "listing")},
    **{name: group(name) for name in ("growth", "servers", "direct")},
}


def spliced(text: str, run: Run) -> str:
    """The page with the tables of a run between its markers."""

    def replaced(found: re.Match[str]) -> str:
        return f"{found[1]}\n{TABLES[found['name']](run)}\n{found[3]}"

    return BLOCK.sub(replaced, text)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="the figures of a run")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    run: Run = json.loads(options.results.read_text("utf-8"))
    options.page.write_text(spliced(options.page.read_text("utf-8"), run), "utf-8")
    draw(run, options.page.parent / "images")
    return 0


if __name__ == "__main__":
    sys.exit(main())
