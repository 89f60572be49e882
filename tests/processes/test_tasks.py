"""Tasks that workers of the queue run, beside processes that look at and cancel them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.processes.conftest import ROOT, Worker

pytestmark = pytest.mark.django_db(transaction=True)
SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.processes.task_settings"}
# "make stress" cancels a thousand.
RACES = int(os.environ.get("RELOADS", "30"))
# Seconds; the machine may be busy.
PATIENCE = 120


@pytest.fixture
def site(start: Callable[..., Worker]) -> Iterator[Worker]:
    """A process that calls tools as tasks."""
    process = start(**SETTINGS)
    process("migrate")
    yield process
    process("clean")


@pytest.fixture
def workers(site: Worker, database: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Three workers of the queue."""
    command = [sys.executable, "-m", "django", "db_worker", "--queue-name", "mcp"]
    command += ["--interval", "0.1", "--no-startup-delay"]
    env = {**os.environ, **SETTINGS, "WORKER_DATABASE": database}
    processes = [subprocess.Popen(command, cwd=ROOT, env=env) for _ in range(3)]
    yield processes
    for each in processes:
        each.kill()
        each.wait(10)


def begin(site: Worker, name: str, /, **arguments: Any) -> str:
    result = site("post", method="tools/call", name=name, arguments=arguments)
    assert result["resultType"] == "task", result
    key: str = result["taskId"]
    return key


def until(site: Worker, key: str, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Return a task once it is as wanted."""
    latest = time.monotonic() + PATIENCE
    while time.monotonic() < latest:
        found: dict[str, Any] = site("post", method="tasks/get", taskId=key)
        if wanted(found):
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def over(task: dict[str, Any]) -> bool:
    return task["status"] not in ("working", "input_required")


def test_worker_has_what_the_request_had(site: Worker, workers: list[Any]) -> None:
    found = until(site, begin(site, "place"), over)
    value = found["result"]["structuredContent"]["result"]
    assert value == ["en", "UTC", "http://testserver/x", "racer", "None", "None"]


def test_progress_is_seen_and_cancelling_stops_the_work(site: Worker, workers: list[Any]) -> None:
    key = begin(site, "write", items=100_000)
    told = until(site, key, lambda task: "statusMessage" in task)["statusMessage"]
    assert " of 100000: item " in told
    site("post", method="tasks/cancel", taskId=key)
    assert until(site, key, over)["status"] == "cancelled"
    # It looks each second.
    latest, before = time.monotonic() + PATIENCE, -1
    while (now := site("groups", name="item")) != before and time.monotonic() < latest:
        before = now
        time.sleep(2)
    assert 0 < now < 100_000
    assert site("post", method="tasks/get", taskId=key)["status"] == "cancelled"


def test_cancelled_coroutine_ends(site: Worker, workers: list[Any]) -> None:
    keys = [begin(site, "wait", seconds=3600) for _ in range(3)]
    time.sleep(2)
    for key in keys:
        site("post", method="tasks/cancel", taskId=key)
    # All three workers are free again.
    found = until(site, begin(site, "quick", number=7), over)
    assert found["result"]["structuredContent"] == {"result": 7}


def test_killed_worker_fails_its_task_once(site: Worker, workers: list[Any]) -> None:
    key = begin(site, "kill")
    latest = time.monotonic() + PATIENCE
    while all(each.poll() is None for each in workers) and time.monotonic() < latest:
        time.sleep(0.05)
    assert site("post", method="tasks/get", taskId=key)["status"] == "working"
    site("silence", key=key)
    found = until(site, key, over)
    assert found["status"] == "failed"
    assert "The worker stopped without a result" in found["error"]["message"]
    found = until(site, begin(site, "quick", number=1), over)
    assert found["status"] == "completed"
    assert sum(each.poll() is not None for each in workers) == 1


def test_cancel_and_completion_leave_one_end(site: Worker, workers: list[Any]) -> None:
    ends: Counter[str] = Counter()
    for number in range(RACES):
        key = begin(site, "quick", number=number)
        time.sleep(random.uniform(0, 0.3))
        site("post", method="tasks/cancel", taskId=key)
        first = until(site, key, over)
        ran = site("groups", name=f"quick {number} ")
        again = site("post", method="tasks/get", taskId=key)
        assert first == again
        assert ran <= 1
        assert (first["status"] == "completed") <= ran
        ends[first["status"]] += 1
    assert sum(ends.values()) == RACES
