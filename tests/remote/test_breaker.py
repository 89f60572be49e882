"""A server that keeps failing is not asked for a while."""

from __future__ import annotations

import pytest

from mcp_bridge.remote import breaker
from mcp_bridge.remote.breaker import FAILURES, PAUSE, Breaker


class Clock:
    """The time of the breaker."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(breaker, "monotonic", clock)
    return clock


@pytest.fixture
def opened(clock: Clock) -> Breaker:
    breaker = Breaker()
    for _ in range(FAILURES):
        assert breaker.seconds_open() == 0
        breaker.note(is_failure=True)
    return breaker


def test_breaker_opens_after_failures_in_a_row(opened: Breaker, clock: Clock) -> None:
    assert opened.seconds_open() == PAUSE
    clock.now += 10
    assert opened.seconds_open() == PAUSE - 10


def test_success_in_between_keeps_the_breaker_closed(clock: Clock) -> None:
    breaker = Breaker()
    for _ in range(3 * FAILURES):
        for is_failure in [True] * (FAILURES - 1) + [False]:
            breaker.note(is_failure=is_failure)
            assert breaker.seconds_open() == 0


def test_one_call_tries_after_the_pause(opened: Breaker, clock: Clock) -> None:
    clock.now += PAUSE
    assert [opened.seconds_open() for _ in range(3)] == [0, PAUSE, PAUSE]


def test_success_of_the_trial_closes_the_breaker(opened: Breaker, clock: Clock) -> None:
    clock.now += PAUSE
    assert opened.seconds_open() == 0
    opened.note(is_failure=False)
    assert [opened.seconds_open() for _ in range(3)] == [0, 0, 0]


def test_failure_of_the_trial_opens_it_again(opened: Breaker, clock: Clock) -> None:
    clock.now += PAUSE
    assert opened.seconds_open() == 0
    clock.now += 5
    opened.note(is_failure=True)
    assert opened.seconds_open() == PAUSE


def test_trial_without_an_outcome_is_made_again(opened: Breaker, clock: Clock) -> None:
    clock.now += PAUSE
    assert opened.seconds_open() == 0
    # Its caller has gone.
    clock.now += PAUSE
    assert opened.seconds_open() == 0
