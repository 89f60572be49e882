"""
Many connections, callers, tools and calls at once: ``python -m tests.hostile.load``.

Prints figures for each server, and exits with 1 if one exceeds its bound. Run it on an otherwise
idle machine; ``--calls`` shortens or lengthens the part that takes longest.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

from tests.hostile.connection import NoAnswerError, exchange
from tests.hostile.drafts import MODERN, Draft, call, method
from tests.hostile.serving import COMMANDS, Server, Site, prepare, serving

IDLE: Final = 1000
GONE: Final = 20
THREADS: Final = 32
MANY: Final = 10_000
# Memory still grows at first: caches fill, and threads begin.
WARM_UP: Final = 5_000
MOST_GROWTH: Final = 20
MOST_SECONDS: Final = 1.0
MOST_AFTER_GONE: Final = 0.2
ASYNCHRONOUS: Final = ("uvicorn", "direct on uvicorn", "direct on granian")


class Bounds:
    """Measurements, printed as they come, and those that exceed their bounds."""

    def __init__(self) -> None:
        self.beyond = 0

    def say(self, server: str, text: str, *, good: bool = True) -> None:
        self.beyond += not good
        print(f"{server:<22} {text}{'' if good else '   BEYOND ITS BOUND'}", flush=True)


def request(server: Server, change: Callable[[Draft], None]) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a request that keeps its connection."""
    draft = Draft(MODERN, server.port, server.secrets)
    change(draft)
    body = draft.content()
    headers = dict(draft.headers(len(body)))
    del headers["Connection"]
    return body, headers


class Client:
    """A connection that is kept alive."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connection = HTTPConnection("127.0.0.1", server.port, timeout=60)

    def ask(self, change: Callable[[Draft], None]) -> dict[str, Any]:
        """Return the result of a request."""
        body, headers = request(self.server, change)
        return self.send(body, headers)

    def send(self, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        self.connection.request("POST", "/mcp", body, headers)
        answer = json.loads(self.connection.getresponse().read())
        assert (answer["id"], "result" in answer) == (1, True), answer
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> None:
        self.connection.close()


def timed(server: Server, times: int = 30, token: str = "") -> tuple[float, float]:
    """Return the median and the longest time of good calls, each over a new connection."""
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        answer = exchange(server.port, *Draft(MODERN, server.port, {}, token).parts())
        took.append(time.perf_counter() - begun)
        assert answer.status == 200, answer
    return statistics.median(took), max(took)


def megabytes(server: Server) -> float:
    """Return the resident memory of the largest process of a server."""
    return max(_resident(each) for each in _family(server.pid)) / 1024


def _family(pid: int) -> Iterator[int]:
    yield pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in map(int, children):
        yield from _family(child)


def _resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


@contextmanager
def idle(server: Server, count: int) -> Iterator[None]:
    """Hold connections: half of them send nothing, half have begun a request."""
    with ExitStack() as stack:
        for number in range(count):
            made = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 10))
            if number % 2:
                made.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        time.sleep(1)
        yield


@contextmanager
def kept(server: Server, count: int) -> Iterator[None]:
    """Hold connections of clients that have been answered, and may send again."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(closing(Client(server))).ask(lambda draft: None)
        yield


def connections(server: Server, bounds: Bounds) -> None:
    alone, _ = timed(server)
    with kept(server, IDLE):
        median, longest = timed(server)
    said = f"beside {IDLE} kept connections {median * 1000:.1f} ms, at most {longest:.3f} s"
    bounds.say(server.name, said, good=longest < MOST_SECONDS)
    said = f"a call alone {alone * 1000:.1f} ms"
    try:
        with idle(server, IDLE):
            median, longest = timed(server)
    except NoAnswerError as why:
        # Each of a few threads waits for one of those that have begun a request.
        said += f", beside {IDLE} idle connections none: {why}"
        bounds.say(server.name, said, good=server.name not in ASYNCHRONOUS)
        return
    said += f", beside {IDLE} idle connections {median * 1000:.1f} ms, at most {longest:.3f} s"
    bounds.say(server.name, said, good=longest < MOST_SECONDS)


def abandoned(server: Server, bounds: Bounds, threads: str) -> None:
    name = f"{server.name}, {threads} threads" if threads else server.name
    # The first call builds the tools.
    timed(server)
    for tool in ("sleep", "asleep"):
        draft = Draft(MODERN, server.port, {})
        call(tool, s=3)(draft)
        for _ in range(GONE):
            with socket.create_connection(("127.0.0.1", server.port)) as gone:
                for part in draft.parts():
                    gone.sendall(part)
        # Until each of them is in its tool.
        time.sleep(1)
        # Another caller's: an abandoned call that runs on counts against its own caller.
        _, longest = timed(server, 1, server.secrets["token"])
        kind = "functions" if tool == "sleep" else "coroutines"
        said = f"after {GONE} clients of slow {kind} have gone, the next call takes {longest:.3f} s"
        # A thread of WSGI cannot be interrupted: only more threads than such calls help.
        good = longest < MOST_AFTER_GONE or (server.name == "gunicorn" and not threads)
        bounds.say(name, said, good=good)
        time.sleep(8)


def crossed(server: Server, bounds: Bounds, calls: int) -> None:
    """Send calls under the same id from threads, and count answers to another call."""

    def work(thread: int) -> int:
        wrong = 0
        with closing(Client(server)) as client:
            for number in range(calls):
                text = f"{thread} {number}"
                found = client.ask(call("echo", text=text))["structuredContent"]["result"]
                wrong += found != text
        return wrong

    with ThreadPoolExecutor(THREADS) as pool:
        wrong = sum(pool.map(work, range(THREADS)))
    said = f"{wrong} of {THREADS * calls} answers crossed, of {THREADS} threads with one id"
    bounds.say(server.name, said, good=not wrong)


def growth(server: Server, bounds: Bounds, calls: int) -> None:
    """Make calls over kept connections; memory is read after a warm-up, and at the end."""
    with closing(Client(server)) as client:
        body, headers = request(server, call("echo", text="hi"))
        for _ in range(WARM_UP):
            client.send(body, headers)
        before, begun = megabytes(server), time.perf_counter()
        for _ in range(calls):
            client.send(body, headers)
        took, grown = time.perf_counter() - begun, megabytes(server) - before
    said = f"{calls} calls in {took:.0f} s: from {before:.1f} MB, {grown:+.1f} MB"
    bounds.say(server.name, said, good=grown < MOST_GROWTH)


def many(server: Server, bounds: Bounds) -> None:
    """List and call tools on a site with ten thousand of them."""
    with closing(Client(server)) as client:

        def clocked(change: Callable[[Draft], None]) -> tuple[float, dict[str, Any]]:
            begun = time.perf_counter()
            result = client.ask(change)
            return (time.perf_counter() - begun) * 1000, result

        first, _ = clocked(method("tools/list"))
        again = statistics.median(clocked(method("tools/list"))[0] for _ in range(10))
        begun, names, pages, cursor = time.perf_counter(), set[str](), 0, {}
        while pages == 0 or cursor:
            _, page = clocked(method("tools/list", **cursor))
            names |= {tool["name"] for tool in page["tools"]}
            pages += 1
            cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else {}
        walk = (time.perf_counter() - begun) * 1000
        one = statistics.median(clocked(call("echo", text="hi"))[0] for _ in range(30))
    bounds.say(
        server.name,
        f"{len(names)} tools: the first list {first:.0f} ms, a page {again:.1f} ms, all {pages} "
        f"pages {walk:.0f} ms, a call {one:.1f} ms, {megabytes(server):.0f} MB",
        good=len(names) > MANY,
    )


def main() -> int:
    """Measure on each server; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.load", description=__doc__)
    kinds = ["connections", "abandoned", "many", "crossed", "growth"]
    parser.add_argument("--server", action="append", choices=list(COMMANDS))
    parser.add_argument("--only", action="append", choices=kinds)
    parser.add_argument("--calls", type=int, default=20_000, help="calls of the one for growth")
    asked = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.disable()
    bounds = Bounds()
    with tempfile.TemporaryDirectory() as folder:
        site = prepare("faults", Path(folder, "site"))
        for name in asked.server or ("gunicorn", "uvicorn", "direct on uvicorn"):
            for kind in asked.only or kinds:
                measured(site, name, kind, Path(folder, f"{name} {kind}"), bounds, asked.calls)
                if (name, kind) == ("gunicorn", "abandoned"):
                    with serving(site, name, Path(folder, "threads"), "--threads", "32") as server:
                        abandoned(server, bounds, "32")
    return 1 if bounds.beyond else 0


def measured(site: Site, name: str, kind: str, folder: Path, bounds: Bounds, calls: int) -> None:
    """Start a server for one measurement, so that it does not inherit an earlier one's memory."""
    tools = {"HOSTILE_TOOLS": str(MANY)} if kind == "many" else {}
    with serving(site, name, folder, **tools) as server:
        match kind:
            case "connections":
                connections(server, bounds)
            case "abandoned":
                abandoned(server, bounds, "")
            case "many":
                many(server, bounds)
            case "crossed":
                crossed(server, bounds, 40)
            case "growth":
                growth(server, bounds, calls)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    sys.exit(main())
