"""Several processes, and several threads of one, obey the administrators' settings alike."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mcp_bridge.conf import conf
from tests.processes.conftest import Worker
from tests.remote.conftest import official

__all__ = ["official"]

# No test's transaction holds the processes' writes: the database is emptied after each test.
pytestmark = pytest.mark.django_db(transaction=True)
# Each takes its turn among the threads; "make stress" does a thousand.
RELOADS = int(os.environ.get("RELOADS", "30"))
RACES = max(3, RELOADS // 30)


def test_change_applies_here_at_once_and_elsewhere_in_time(
    start: Callable[[], Worker],
) -> None:
    one, other = start(), start()
    one("migrate")
    assert one("tools") == other("tools") == ["first", "second", "third"]
    for enabled, left in ((False, ["first", "third"]), (True, ["first", "second", "third"])):
        one("toggle", name="second", enabled=enabled)
        assert one("tools") == left
        time.sleep(conf.STATE_MAX_AGE)
        assert other("tools") == left


def test_three_processes_serve_what_one_has_fetched(
    start: Callable[..., Worker], official: str
) -> None:
    host = official.partition("//")[2]
    workers = [start(WORKER_REMOTE=host) for _ in range(3)]
    workers[0]("migrate")
    assert [each("add", a=1, b=2) for each in workers] == [None, None, None]
    workers[0]("connect", url=f"{official}/modern_sse/mcp")
    time.sleep(conf.STATE_MAX_AGE)
    assert [each("add", a=1, b=2) for each in workers] == [{"total": 3}] * 3
    workers[1]("toggle", name="far_add", enabled=False)
    time.sleep(conf.STATE_MAX_AGE)
    assert [each("add", a=1, b=2) for each in workers] == [None, None, None]


def test_answers_are_of_one_generation_during_reloads(
    start: Callable[[], Worker],
) -> None:
    worker = start()
    worker("migrate")
    counted = worker("hammer", threads=8, reloads=RELOADS)
    assert (counted["mixed"], counted["failed"]) == (0, 0)
    assert counted["answers"] > 8


def test_killed_call_stays_started_until_reaped(
    start: Callable[[], Worker],
) -> None:
    one, other = start(), start()
    one("migrate")
    with pytest.raises(json.JSONDecodeError):
        one("die_in_a_call")
    assert other("outcomes") == [["third", "started"]]
    assert other("outcomes", reap=True) == [["third", "unknown"]]


def test_approval_is_used_up_by_a_killed_call(
    start: Callable[[], Worker],
) -> None:
    one, other, third = start(), start(), start()
    one("migrate")
    state = one("race")
    with pytest.raises(json.JSONDecodeError):
        one("die_in_a_call", state=state)
    # Its client sends the same call again.
    assert "been used already" in third("race", state=state)
    assert third("approve") == 1
    assert "requires a person's approval" in other("race", asks=False)
    third("approve")
    with pytest.raises(json.JSONDecodeError):
        other("die_in_a_call", asks=False)
    assert "requires a person's approval" in third("race", asks=False)
    assert third("approve") == 2
    third("clean")


def test_queue_of_two_processes_holds_a_hundred_calls(start: Callable[[], Worker]) -> None:
    one, other = start(), start()
    one("migrate")
    one("race", asks=False)
    other("race", asks=False)
    assert one("waiting", more=91) == 92
    at = time.time() + 0.2
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(one, "fill", numbers=[*range(0, 8)], at=at)
        second = pool.submit(other, "fill", numbers=[*range(8, 16)], at=at)
        refused = first.result() + second.result()
    assert (one("waiting"), refused) == (100, 8)
    one("clean")


def test_one_approval_runs_a_tool_in_one_process_only(start: Callable[[], Worker]) -> None:
    one, other = start(), start()
    one("migrate")
    one("race")
    other("race")

    def both(**options: Any) -> list[str]:
        at = time.time() + 0.1
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda worker: worker("race", at=at, **options), (one, other)))

    for number in range(1, RACES + 1):
        answers = both(state=one("race"))
        assert sorted("been used already" in each for each in answers) == [False, True], answers
        assert one("approve") == number
    ran = RACES
    for _ in range(RACES):
        assert all("requires a person's approval" in each for each in both(asks=False))
        assert one("approve") == ran
        answers = both(asks=False)
        assert sorted("is pending" in each for each in answers) == [False, True], answers
        # The call that the loser has queued again is approved by this, and used up by another call.
        assert one("approve") == ran + 1
        one("race", asks=False)
        ran += 2
    one("clean")
