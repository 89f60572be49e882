"""
What the record of a call costs: an empty tool with the setting AUDIT, and without it.

All in one process, on the view itself: no server, no socket, no credential. The database is SQLite
in memory: on a disk each statement waits for a commit besides, which is the disk's to measure.
"""

from __future__ import annotations

import cProfile
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from benchmarks.contestants import BRIDGE
from benchmarks.tools import CALLED
from benchmarks.wire import META, REVISION, WrongAnswerError

WORD: Final = "recording"
ROUNDS: Final = 60
CALLS: Final = 50
TOOLS: Final = {"read": "read-only", "act": "acting"}
SETTINGS: Final[dict[str, Any]] = {"not recorded": None, "recorded": {}}


def measure() -> str:
    """The figures, as Markdown."""
    with site():
        return _measured()


@contextmanager
def site() -> Iterator[None]:
    """A site with the two tools, in this process."""
    os.environ.update(BRIDGE.variables())
    os.environ.update(BENCHMARK_MODE="anonymous", BENCHMARK_DATABASE=":memory:")
    os.environ.update(BENCHMARK_TOOLS=str(len(CALLED)))
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection
    from django.test import override_settings

    with override_settings(ROOT_URLCONF="benchmarks.site.recorded"):
        call_command("migrate", verbosity=0)
        yield
        connection.close()


class Calls:
    """Calls of a tool under a setting: how long they took, and what they asked of the database."""

    def __init__(self, tool: str, audit: Any) -> None:
        self.tool, self.audit = tool, audit
        self.times: list[float] = []
        self.statements = self.functions = 0.0

    @contextmanager
    def prepared(self, times: int) -> Iterator[Callable[[], None]]:
        """Makes that many calls, whose requests are made before; the answer is held to be right."""
        from django.test import RequestFactory, override_settings

        from mcp_bridge.views import MCPView

        view, answers = MCPView.as_view(), []
        requests = RequestFactory(SERVER_NAME="127.0.0.1")
        params = {"name": self.tool, "arguments": {}, "_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        headers = {"MCP-Protocol-Version": REVISION, "Mcp-Method": "tools/call"}
        headers["Mcp-Name"] = self.tool

        def made(count: int) -> list[Any]:
            kind = "application/json"
            return [
                requests.generic("POST", "/mcp", body, kind, headers=headers) for _ in range(count)
            ]

        with override_settings(MCP_BRIDGE={"AUDIT": self.audit, "STATE_MAX_AGE": 3600}):
            # What is read once for a setting is not what is measured.
            view(*made(1))
            waiting = made(times)
            yield lambda: answers.extend(map(view, waiting))
        if not all(b'"isError":false' in answer.content for answer in answers):
            raise WrongAnswerError(answers[0].content)

    def time(self) -> None:
        with self.prepared(CALLS) as make:
            begun = time.process_time()
            make()
            self.times.append((time.process_time() - begun) / CALLS)

    def count(self) -> None:
        from django.db import connection

        asked: list[str] = []

        def execute(run: Callable[..., Any], sql: str, *others: Any) -> Any:
            asked.append(sql)
            return run(sql, *others)

        with self.prepared(CALLS) as make, connection.execute_wrapper(execute):
            make()
        profile = cProfile.Profile()
        with self.prepared(CALLS) as make:
            profile.runcall(make)
        self.statements = sum("toolcallrecord" in sql for sql in asked) / CALLS
        self.functions = sum(each.callcount for each in profile.getstats()) / CALLS


def _measured() -> str:
    rows = {tool: [Calls(tool, audit) for audit in SETTINGS.values()] for tool in TOOLS}
    every = [calls for pair in rows.values() for calls in pair]
    for number in range(ROUNDS):
        # In turns, so that whatever else the machine does meets all of them.
        for calls in every[:: -1 if number % 2 else 1]:
            calls.time()
    for calls in every:
        calls.count()
    lines = ["| tool | | CPU µs | × not recorded | statements for it | function calls |"]
    lines.append("| :-- | :-- | --: | --: | --: | --: |")
    for tool, pair in rows.items():
        for name, calls in zip(SETTINGS, pair, strict=True):
            ratios = (one / none for one, none in zip(calls.times, pair[0].times, strict=True))
            figures = [
                f"{statistics.median(calls.times) * 1e6:.0f}",
                f"{statistics.median(ratios):.2f}",
                f"{calls.statements:g}",
                f"{calls.functions:.0f}",
            ]
            lines.append(f"| {' | '.join([TOOLS[tool], name, *figures])} |")
    return (
        "## The record of a call\n\nAn empty tool, called on the view itself, with SQLite in "
        f"memory: medians of {ROUNDS} interleaved rounds of {CALLS} calls. What acts has a "
        "transaction as well, recorded or not.\n\n" + "\n".join(lines) + "\n"
    )
