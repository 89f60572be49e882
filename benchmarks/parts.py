"""
``python -m benchmarks.parts``: where the time of a call goes, in one process and without a server.

Each part is a function that is timed by itself, from outside, while the site answers; what the
parts leave of the view is the calls between them. The time of a server comes on top.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any, Final

from benchmarks import tools
from benchmarks.contestants import RECORDS_OFF, Contestant
from benchmarks.counting import Site
from benchmarks.databases import databases
from benchmarks.servers import ROOT

CALLS: Final = 1000
ROUNDS: Final = 5
VIEW: Final = "mcp_bridge.views:MCPView.post"
PARTS: Final = {
    "host and origin": ("mcp_bridge.transports.http:check_origin",),
    "the server: tools of now, policy": ("mcp_bridge.views:BridgeView.get_server",),
    "credential, rates of requests": (
        "mcp_bridge.views:authenticate",
        "mcp_bridge.views:throttle",
    ),
    "media type, body": (
        "mcp_bridge.transports.http:check_form",
        "mcp_bridge.transports.http:check_media",
        "mcp_bridge.transports.http:read_body",
    ),
    "JSON to a request": (
        "mcp_bridge.transports.http:headers_of",
        "mcp_bridge.protocol.jsonrpc:decode",
        "mcp_bridge.protocol.requests:read_message",
    ),
    "who calls": ("mcp_bridge.transports.http:context_of",),
    "the tool, and whether it may be called": ("mcp_bridge.server.perform:find",),
    "arguments": ("mcp_bridge.server.perform:check_arguments",),
    "the tool, transactions, its result": ("mcp_bridge.server.perform:run",),
    "record": (
        "mcp_bridge.records.recorder:start",
        "mcp_bridge.records.recorder:finish",
    ),
    "result to JSON": ("mcp_bridge.protocol.exchange:_response",),
    "response": ("mcp_bridge.transports.http:respond",),
}


def timed(path: str, run: Callable[[], object]) -> float:
    """Microseconds in a function while ``run`` runs, without those that timing takes; a median."""
    module, name = path.split(":")
    owner: Any = import_module(module)
    *outer, name = name.split(".")
    for each in outer:
        owner = getattr(owner, each)
    original = vars(owner)[name]
    took: list[int] = []

    def timing(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter_ns()
        try:
            return original(*args, **kwargs)
        finally:
            took.append(time.perf_counter_ns() - began)

    async def timing_coroutine(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter_ns()
        try:
            return await original(*args, **kwargs)
        finally:
            took.append(time.perf_counter_ns() - began)

    setattr(owner, name, timing_coroutine if iscoroutinefunction(original) else timing)
    # Tools keep the functions of their steps.
    forget()
    try:
        run()
    finally:
        setattr(owner, name, original)
        forget()
    return statistics.median(took) / 1000


def forget() -> None:
    module = sys.modules.get("mcp_bridge.server.perform")
    if module is not None:
        module.steps_of.cache_clear()


def measure() -> dict[str, float]:
    """Microseconds by part, of the site in this process."""
    site = Site()
    environ = site.request("tools/call", name="add", arguments=tools.ARGUMENTS["add"])
    # As short as most clients write it.
    message = json.loads(environ["wsgi.input"].read())
    body = json.dumps(message, separators=(",", ":")).encode()
    environ["CONTENT_LENGTH"] = str(len(body))

    def run() -> None:
        for _ in range(CALLS):
            response = site.application(
                {**environ, "wsgi.input": io.BytesIO(body)}, lambda status, headers: None
            )
            b"".join(response)
            response.close()

    run()
    rounds = []
    for _ in range(ROUNDS):
        thread, process = time.thread_time(), time.process_time()
        run()
        rounds.append((time.thread_time() - thread, time.process_time() - process))
    whole, both = (statistics.median(each) * 1e6 / CALLS for each in zip(*rounds, strict=True))
    found = {"whole": whole, "thread of records": both - whole}
    if os.environ["BENCHMARK_SITE"] == "bridge":
        found |= {title: sum(timed(path, run) for path in paths) for title, paths in PARTS.items()}
        found["between these"] = timed(VIEW, run) - sum(found[title] for title in PARTS)
    return found


def main() -> int:
    if sys.argv[1:] == ["one"]:
        print(json.dumps(measure()))
        return 0
    contestants = {
        "empty view": Contestant("floor", "", "floor"),
        "django-mcpz": Contestant("mcpz", "", "mcpz"),
        "mcp_bridge, `AUDIT = None`": Contestant("bridge", "", "bridge", bridge=RECORDS_OFF),
        "mcp_bridge": Contestant("bridge", "", "bridge"),
    }
    found = {}
    with databases() as made:
        for title, contestant in contestants.items():
            variables, token = made.environment(contestant, "anonymous", 10)
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.parts", "one"],
                env=variables | {"BENCHMARK_TOKEN": token},
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            found[title] = json.loads(done.stdout.splitlines()[-1])
    print("| µs of a call | " + " | ".join(found) + " |")
    print("| :-- " + "| --: " * len(found) + "|")
    rows = dict.fromkeys(title for each in found.values() for title in each)
    for row in rows:
        cells = [f"{each[row]:.1f}" if row in each else "" for each in found.values()]
        print(f"| {row} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
