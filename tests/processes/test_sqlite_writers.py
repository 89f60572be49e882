"""Many processes write to one file of SQLite: no call fails for its lock, and each is recorded."""

from __future__ import annotations

import http.client
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.processes import test_end_of_servers
from tests.processes.test_end_of_servers import Server, ended, environment
from tests.support.processes import ROOT

database, start = test_end_of_servers.database, test_end_of_servers.start

WRITERS, CALLS = 32, 20
# Django's defaults, but for the mode of transactions; and those of docs/start/installation.md.
PLAIN = {"transaction_mode": "IMMEDIATE"}
FAST = {**PLAIN, "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"}
READS = 100


def issue(database: Path) -> str:
    """Return a new user's unused token."""
    command = [sys.executable, "-m", "django"]
    env = {**environment(database), "DJANGO_SUPERUSER_PASSWORD": "x"}
    for arguments in (
        ["createsuperuser", "--noinput", "--username=ada", "--email=ada@example.com"],
        ["mcp_token", "create", "--name=laptop", "ada"],
    ):
        done = subprocess.run(
            [*command, *arguments], cwd=ROOT, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    (secret,) = [each for each in done.stdout.split() if each.startswith("mcp_")]
    return secret


def calling(server: Server, token: str) -> Callable[..., tuple[Any, float]]:
    """Call a tool with the token; return the result, and the seconds that the answer took."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
        "Authorization": f"Bearer {token}",
    }

    def call(name: str, **arguments: Any) -> tuple[Any, float]:
        params = {"name": name, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        began = time.monotonic()
        with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)) as there:
            there.request("POST", "/mcp", json.dumps(message), headers)
            answer = json.loads(there.getresponse().read())
        return answer.get("result", answer), time.monotonic() - began

    return call


@pytest.fixture
def serve(
    start: Callable[[str], Server], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Server, Callable[..., tuple[Any, float]]]]:
    """Start a server with these OPTIONS of its database, and a client of it."""

    def begin(**options: Any) -> tuple[Server, Callable[..., tuple[Any, float]]]:
        monkeypatch.setenv("SERVED_OPTIONS", json.dumps(options))
        server = start("gunicorn, writers")
        return server, calling(server, issue(server.database))

    return begin


def one(server: Server, sql: str) -> Any:
    with closing(sqlite3.connect(server.database, timeout=60)) as connection:
        return connection.execute(sql).fetchone()[0]


@pytest.mark.parametrize("options", [PLAIN, FAST], ids=["plain", "WAL"])
def test_many_writers_lose_no_record_and_no_call(
    options: dict[str, Any], serve: Callable[..., Any], tmp_path: Path
) -> None:
    # A slow machine needs longer for all of them than Django's five seconds.
    server, call = serve(**options, timeout=60)

    def write(writer: int) -> list[tuple[Any, float]]:
        return [call("act", number=writer * CALLS + each) for each in range(CALLS)]

    with ThreadPoolExecutor(WRITERS) as pool:
        answered = [each for mine in pool.map(write, range(WRITERS)) for each in mine]
    failed = [result for result, _ in answered if result.get("isError") is not False]
    slowest = max(seconds for _, seconds in answered)
    print(f"{len(answered)} calls, {len(failed)} failed, the slowest took {slowest:.1f} s")
    assert failed == []
    with ended(server, signal.SIGTERM):
        pass
    counted = Counter(server.records())
    assert counted == {("act", "succeeded"): WRITERS * CALLS, ("look", "succeeded"): 1}
    assert one(server, "SELECT count(*) FROM auth_group") == WRITERS * CALLS
    assert "is lost" not in (tmp_path / "log").read_text()


def test_readers_do_not_wait_for_the_lock(serve: Callable[..., Any], tmp_path: Path) -> None:
    # A writer waits that long for the lock.
    server, call = serve(**FAST, timeout=300)
    with ThreadPoolExecutor(12) as pool:
        with closing(sqlite3.connect(server.database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            reading = [pool.submit(call, "look", number=each) for each in range(READS)]
            reads = [each.result() for each in reading]
            acting = [pool.submit(call, "act", number=each) for each in range(4)]
            other.execute("COMMIT")
        acts = [each.result()[0] for each in acting]
    slowest = max(seconds for _, seconds in reads)
    print(f"{READS} reads while the file was locked, the slowest took {slowest:.1f} s")
    assert slowest < 100
    assert all(result["isError"] is False for result in (*(each for each, _ in reads), *acts))
    assert call("hold", number=1, seconds=1.2)[0]["isError"] is False
    assert one(server, "SELECT last_used_at FROM mcp_bridge_tokens_token") is not None
    with ended(server, signal.SIGTERM):
        pass
    assert Counter(server.records()) == {
        ("look", "succeeded"): READS + 1,
        ("act", "succeeded"): 4,
        ("hold", "succeeded"): 1,
    }
    log = (tmp_path / "log").read_text()
    assert "The tool 'hold' kept the SQLite database 'default' locked for 1." in log
    assert "is lost" not in log
