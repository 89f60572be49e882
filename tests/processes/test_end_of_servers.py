"""Every call that was answered is on record when its server has ended."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import ROOT

SITE = "tests.processes.served_site"
GUNICORN = ["gunicorn", f"{SITE}:wsgi", "--bind", "127.0.0.1:{port}", "--log-level", "warning"]
UVICORN = ["uvicorn", f"{SITE}:asgi", "--port", "{port}", "--lifespan", "off"]
SERVERS = {
    "gunicorn": GUNICORN,
    "gunicorn, threads": [*GUNICORN, "--threads", "4"],
    "gunicorn, preloaded": [*GUNICORN, "--threads", "4", "--preload", "--workers", "2"],
    "gunicorn, writers": [*GUNICORN, "--threads", "16", "--workers", "2"],
    "uvicorn": UVICORN,
    "uvicorn, direct": ["uvicorn", f"{SITE}:direct", "--port", "{port}"],
    "uvicorn, workers": [*UVICORN, "--workers", "2"],
    "runserver": ["django", "runserver", "127.0.0.1:{port}", "--noreload"],
}


# One ends in another way, and one is for other tests.
OTHERS = ("runserver", "gunicorn, writers")


class Server:
    """A server in a separate process, at a port, with a database in a file."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, database: Path) -> None:
        self.process, self.port, self.database = process, port, database

    def call(self, tool: str, **arguments: Any) -> bool:
        """Call a tool; return whether the answer is its result."""
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
        }
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            path = "/amcp" if "uvicorn" in str(self.process.args) else "/mcp"
            connection.request("POST", path, json.dumps(message), headers)
            answer = json.loads(connection.getresponse().read())
        return answer["result"]["structuredContent"] == {"result": arguments["number"]}

    def shell(self, code: str) -> str:
        """Run code in a further process of the site; return the last line that it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "django", "shell", "-c", code],
            cwd=ROOT,
            env=environment(self.database),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1] if done.stdout else ""

    def records(self) -> list[tuple[str, str]]:
        """Return the tool and outcome of each record, by the time at which it began."""
        with closing(sqlite3.connect(self.database, timeout=60)) as connection:
            return connection.execute(
                "SELECT tool, outcome FROM mcp_bridge_toolcallrecord ORDER BY started_at"
            ).fetchall()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with its tables, of which each server gets a copy."""
    place = tmp_path_factory.mktemp("served") / "empty.sqlite3"
    done = subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--verbosity=0"],
        cwd=ROOT,
        env=environment(place),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return place


def environment(database: Path) -> dict[str, str]:
    site = {"DJANGO_SETTINGS_MODULE": "tests.processes.served_settings", "PYTHONPATH": str(ROOT)}
    left_out = ("PYTHONDEVMODE", "MCP_BRIDGE_TEST_DATABASE_URL")
    others = {name: each for name, each in os.environ.items() if name not in left_out}
    return others | site | {"SERVED_DATABASE": str(database)}


@pytest.fixture
def start(database: Path, tmp_path: Path) -> Iterator[Callable[[str], Server]]:
    """Start a server of SERVERS, and end it with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def start(kind: str) -> Server:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        mine = tmp_path / "served.sqlite3"
        with closing(sqlite3.connect(database)) as one, closing(sqlite3.connect(mine)) as other:
            one.backup(other)
        command = [part.format(port=port) for part in SERVERS[kind]]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=ROOT, env=environment(mine), stderr=log
            )
        running.append(process)
        server, until = Server(process, port, mine), time.monotonic() + 60
        while True:
            try:
                assert server.call("look", number=0)
                return server
            except OSError:
                is_over = process.poll() is not None or time.monotonic() > until
                assert not is_over, (tmp_path / "log").read_text()
                time.sleep(0.1)

    yield start
    for process in running:
        process.kill()
        process.wait(30)


@contextmanager
def ended(server: Server, number: signal.Signals) -> Iterator[None]:
    """End the server by the signal after the block."""
    yield
    server.process.send_signal(number)
    server.process.wait(30)


@pytest.mark.parametrize(
    "kind", [each for each in SERVERS if each not in ("runserver", "gunicorn, writers")]
)
def test_every_answered_call_is_on_record_after_sigterm(
    kind: str, start: Callable[[str], Server]
) -> None:
    server = start(kind)
    with ThreadPoolExecutor(4) as pool, ended(server, signal.SIGTERM):
        answers = pool.map(lambda number: server.call("look", number=number), range(60))
        assert all(answers)
        assert server.call("act", number=1)
        assert server.call("look", number=61)
    outcomes = [*[("look", "succeeded")] * 61, ("act", "succeeded"), ("look", "succeeded")]
    assert server.records() == outcomes


@pytest.mark.parametrize("kind", ["gunicorn, threads", "uvicorn"])
def test_call_answered_during_shutdown_is_on_record(
    kind: str, start: Callable[[str], Server]
) -> None:
    server = start(kind)
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(server.call, "look", number=each, seconds=1) for each in range(3)]
        with ended(server, signal.SIGTERM):
            time.sleep(0.5)
        assert all(each.result() for each in answers)
    assert server.records() == [("look", "succeeded")] * 4


@pytest.mark.parametrize("kind", ["gunicorn", "uvicorn", "runserver"])
def test_killed_server_loses_only_its_newest_reads(
    kind: str, start: Callable[[str], Server]
) -> None:
    server = start(kind)
    assert server.call("look", number=1)
    time.sleep(1.5)
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    workers = children.read_text().split() if children.exists() else []
    with ended(server, signal.SIGKILL):
        assert server.call("act", number=1)
    for worker in workers:
        os.kill(int(worker), signal.SIGKILL)
    assert server.records()[:3] == [
        *[("look", "succeeded")] * 2,
        ("act", "succeeded"),
    ]


@pytest.mark.parametrize("kind", ["gunicorn", "uvicorn, direct"])
def test_unwritten_records_are_logged_on_shutdown(
    kind: str, start: Callable[[str], Server], tmp_path: Path
) -> None:
    server = start(kind)
    until = time.monotonic() + 60
    while not server.records():
        assert time.monotonic() < until
        time.sleep(0.05)
    with closing(sqlite3.connect(server.database, isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")
        with ended(server, signal.SIGTERM):
            for number in range(3):
                assert server.call("look", number=number)
            # By then the first waits for the lock.
            time.sleep(1)
    lost = [each for each in (tmp_path / "log").read_text().splitlines() if each[:1] == "{"]
    assert [json.loads(each)["tool"] for each in lost] == ["look"] * 3
