"""
A flood of requests leaves connections of PostgreSQL to all other users, under uvicorn.

``make services`` runs it, or, with a local PostgreSQL, ``STRESS=1 .ci/services python -m pytest
tests/processes/test_crowded.py``.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from mcp_bridge.tokens.models import PREFIX, Token
from tests.support.processes import ROOT

pytestmark = [
    pytest.mark.skipif(connection.vendor != "postgresql", reason="make services runs it"),
    pytest.mark.django_db(transaction=True),
]
CALLS = 130
# The defaults: how many requests have a thread at once, and calls of one caller run at once.
REQUESTS, CALLS_OF_ONE = 10, 20
# Threads that write the records, and that end a request while another one begins.
OTHERS = 5
WITHOUT_LIMITS = {"MAX_CONCURRENT_CALLS": None, "MAX_PROCESS_CALLS": None}
# Far longer than any step takes; after that it counts as failed.
PATIENCE = 60
# In seconds, on a busy machine.
AT_ONCE = 2

# The HTTP status and the JSON.
Answer: TypeAlias = tuple[int, Any]


class Crowd:
    """A server in a separate process, and clients that all call at once."""

    def __init__(self, port: int, end: Path) -> None:
        self.port, self.end = port, end
        self.pool = ThreadPoolExecutor(CALLS)

    def send(self, message: Any, token: str, revision: str = "2025-11-25") -> Answer:
        """
        Send a message, or get a page of tools for None; return the HTTP status and the answer.
        """
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {token}",
            "MCP-Protocol-Version": revision,
        }
        to = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2 * PATIENCE)
        with closing(to):
            if message is None:
                to.request("GET", "/mcp/tools/list", headers=headers)
            else:
                to.request("POST", "/mcp", json.dumps(message), headers)
            response = to.getresponse()
            return response.status, json.loads(response.read())

    def call(self, tool: str, token: str) -> Answer:
        """Call a tool."""
        return self.send(calling(tool), token)

    @property
    def most(self) -> int:
        """How many connections the server has had at once."""
        return int(self.end.with_name("most").read_text())

    def flood(self, *sent: Any, times: int = 1) -> list[Future[Answer]]:
        """Send the same by all clients at once, each so many times."""
        return [self.pool.submit(self.send, *sent) for _ in range(times * CALLS)]


def calling(tool: str) -> dict[str, Any]:
    """Return the message that calls a tool."""
    params = {"name": tool, "arguments": {}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def until(condition: Callable[[], bool], what: str, pause: float = 0.05) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(pause)


def connections() -> int:
    """Return how many connections the server has to this database, beside the test's own."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Crowd]]:
    """Start the site with settings, by one of its applications."""
    running: list[tuple[subprocess.Popen[bytes], Crowd]] = []

    def begin(application: str, **options: Any) -> Crowd:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        crowd = Crowd(port, tmp_path / "end")
        variables = {
            "DJANGO_SETTINGS_MODULE": "tests.processes.crowded_settings",
            "CROWDED_DATABASE": str(connection.settings_dict["NAME"]),
            "CROWDED_OPTIONS": json.dumps({"AUDIT": None, **options}),
            "CROWDED_END": str(crowd.end),
        }
        site = f"tests.processes.crowded_site:{application}"
        command = [sys.executable, "-m", "uvicorn", site, "--port", str(port), "--lifespan", "off"]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **variables}, stdout=log, stderr=log
            )
        running.append((process, crowd))

        def answers() -> bool:
            assert process.poll() is None, (tmp_path / "log").read_text()
            try:
                return crowd.call("look", "none")[0] == 401
            except OSError:
                return False

        until(answers, "the server has not begun")
        return crowd

    yield begin
    for process, crowd in running:
        crowd.end.touch()
        process.kill()
        process.wait(30)
        crowd.pool.shutdown(cancel_futures=True)
    until(lambda: connections() == 0, "connections are left")


def token_of(name: str) -> str:
    user = get_user_model().objects.create_user(name)
    return Token.objects.issue(user=user, name=name)[1]


# Message, token if it is not a user's, and revision if that matters.
FLOODS: dict[str, tuple[Any, ...]] = {
    "calls": (calling("look"),),
    "wrong tokens": (calling("look"), PREFIX + "wrong"),
    "lists": ({"jsonrpc": "2.0", "id": 1, "method": "tools/list"},),
    "pages": (None,),
    "batches": ([calling("look")] * 5, "", "2025-03-26"),
}


@pytest.mark.parametrize("application", ["django_application", "direct_lane"])
@pytest.mark.parametrize("kind", FLOODS)
def test_flood_holds_few_connections(
    kind: str, application: str, start: Callable[..., Crowd]
) -> None:
    one, other = token_of("one"), token_of("other")
    crowd = start(application, AUDIT={})
    message, *rest = FLOODS[kind]
    token, *revision = rest or [""]
    answers = crowd.flood(message, token or one, *revision, times=3)
    found = Counter(each.result()[0] for each in answers)
    most = crowd.most
    print(f"{kind}, {application}: {most} connections, {dict(found)}")
    began = time.monotonic()
    assert crowd.call("look", other)[0] == 200
    assert time.monotonic() - began < AT_ONCE
    assert found == {401 if token else 200: len(answers)}
    inside = [each for future in answers if kind == "batches" for each in future.result()[1]]
    # In batches, some calls may be refused.
    assert {each["error"]["code"] for each in inside if "error" in each} <= {429}
    calls = CALLS_OF_ONE if kind in ("calls", "batches") else 0
    assert most <= REQUESTS + calls + OTHERS


@pytest.mark.parametrize("tool", ["occupy", "wait"])
@pytest.mark.parametrize("application", ["django_application", "direct_lane"])
def test_130_slow_calls_do_not_delay_another_caller(
    application: str, tool: str, start: Callable[..., Crowd]
) -> None:
    one, other = token_of("one"), token_of("other")
    crowd = start(application)
    calls = crowd.flood(calling(tool), one)
    refused = CALLS - CALLS_OF_ONE
    until(lambda: sum(each.done() for each in calls) >= refused, "too few are answered")
    most = crowd.most
    print(f"{tool}, {application}: {most} connections")
    assert most <= REQUESTS + CALLS_OF_ONE + OTHERS
    # While the others run.
    began = time.monotonic()
    status, answer = crowd.call("look", other)
    assert time.monotonic() - began < AT_ONCE
    assert (status, answer["result"]["isError"]) == (200, False)
    assert crowd.call(tool, one)[0] == 429
    if tool == "wait":
        until(lambda: connections() == 0, "coroutines that wait hold connections")
    else:
        assert connections() >= CALLS_OF_ONE
    assert sum(each.done() for each in calls) == refused
    crowd.end.touch()
    answers = [each.result() for each in calls]
    found = Counter(status for status, _ in answers)
    assert found == {200: CALLS_OF_ONE, 429: refused}
    assert not any(each["result"]["isError"] for status, each in answers if status == 200)
    assert crowd.call(tool, one)[0] == 200


def test_without_limits_one_caller_takes_all_connections(start: Callable[..., Crowd]) -> None:
    one, other = token_of("one"), token_of("other")
    crowd = start("django_application", **WITHOUT_LIMITS)
    crowd.flood(calling("occupy"), one)
    until(lambda: crowd.call("look", other)[0] != 200, "there are connections left")
