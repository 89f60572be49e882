"""docs/project/performance.md takes its tables from the benchmark's figures."""

from __future__ import annotations

from benchmarks.page import BLOCK, PAGE, TABLES, spliced
from benchmarks.targets import TARGETS

RUN = {
    "head": {
        **{"python": "CPython 3.13.0", "system": "Linux", "cores": 2, "pinned": True, "load": 0.1},
        **{"packages": {"Django": "6.1.3"}, "database": "no PostgreSQL"},
        **{"revision": "2026-07-28", "rounds": 3, "seconds": 0.1},
    },
    "left_out": ["bolt-mcp. bolt_mcp is not installed."],
    "series": [
        {
            **{"group": "calls", "mode": "anonymous", "operation": "add", "tools": 100},
            **{"contestant": name, "title": name, "pages": 1, "bytes": 300, "client": 0.2},
            **{"per_second": speeds, "cpu_us": [None] * 3, "median_us": [500, None, None]},
        }
        for name, speeds in (("floor-orjson", [1000, 1010, 990]), ("bridge", [900, 808, 891]))
    ],
    "start": [],
    "texts": [],
}


def test_every_marker_of_the_page_has_a_table() -> None:
    text = PAGE.read_text("utf-8")
    found = [each["name"] for each in BLOCK.finditer(text)]
    assert sorted(found) == sorted(TABLES)
    assert text.count("<!-- measured: ") == text.count("<!-- end -->") == len(found)


def test_the_tables_of_a_run_replace_those_of_the_last() -> None:
    once = spliced(PAGE.read_text("utf-8"), RUN)
    assert spliced(once, RUN) == once
    assert "| `add`, as shipped | the empty view | ≥ 0.85 × | 0.90 (0.85–0.90) |  | met |" in once
    assert "* Left out: bolt-mcp. bolt_mcp is not installed.\n" in once


def test_what_a_run_has_not_measured_is_said() -> None:
    text = spliced(PAGE.read_text("utf-8"), RUN)
    targets = text.partition("## Targets\n")[2].partition("\n## ")[0]
    assert targets.count("not measured") == len(TARGETS) - 1
