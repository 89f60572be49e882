"""
``python -m benchmarks.primitives``: what resources cost beside tools.

A site with 1,000 resources and 1,000 tools lists both, and a text of 10 KB is read as a resource
and returned by a tool: whole requests with a token, in turns.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from benchmarks.remote import asker, begin, rounds

NUMBER: Final = 1_000
TEXT: Final = "x" * 10_240
MODULE: Final = "benchmark_primitives"


def fill(module: ModuleType) -> None:
    """Define the tools and resources, all alike."""
    from mcp_bridge import mcp_resource, mcp_tool

    for number in range(NUMBER):
        name = f"note_{number}"

        def text() -> str:
            """Return a text of ten kilobytes."""
            return TEXT

        def same() -> str:
            """Return a text of ten kilobytes."""
            return TEXT

        text.__module__ = same.__module__ = MODULE
        text.__name__, same.__name__ = name, f"{name}_text"
        setattr(module, text.__name__, mcp_tool(read_only=True)(text))
        marked = mcp_resource(f"notes://{number}", name=name)(same)
        setattr(module, same.__name__, marked)
    sys.modules[MODULE] = module


def compared(title: str, one: Any, other: Any, calls: int) -> str:
    """Return a line with the medians of two requests, and of their ratios round by round."""
    took = rounds({"one": one, "other": other}, calls)
    ratio = statistics.median(a / b for a, b in zip(took["other"], took["one"], strict=True))
    first, second = (statistics.median(each) for each in took.values())
    return f"| {title} | {first:.2f} | {second:.2f} | {ratio:.2f} |"


def lines() -> Iterator[str]:
    yield from ("| | tool, ms | resource, ms | ratio |", "| :-- | --: | --: | --: |")
    listed = {kind: asker(f"{kind}/list") for kind in ("tools", "resources")}
    for kind, ask in listed.items():
        assert len(json.loads(ask())["result"][kind]) == NUMBER
    yield compared(f"list of {NUMBER:,}", listed["tools"], listed["resources"], 50)
    called = asker("tools/call", name="note_5", arguments={})
    read = asker("resources/read", uri="notes://5")
    for ask in (called, read):
        assert TEXT.encode() in ask(), ask()[:500]
    yield compared("10 KB", called, read, 100)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        functions = {"OPTIONS": {"modules": [MODULE]}}
        sources = {"rpc": None, "remote": None, "skills": None, "functions": functions}
        fill(ModuleType(MODULE))
        begin({"SOURCES": sources}, Path(folder) / "db.sqlite3")
        for line in lines():
            print(line, flush=True)
        from mcp_bridge.records.rows import flush

        flush()


if __name__ == "__main__":
    main()
