"""A Redis that is away, hangs or is full while it counts the calls of a site."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.databases import SQLite
from tests.faults.servers import Redis, wait_for
from tests.faults.serving import REQUESTS, Site, serving

# Redis is waited for 0.3 seconds, and not again within the next one; the rest is a busy machine's.
SECONDS = 4.3
OPTIONS = {
    "THROTTLE_CLASSES": [
        "rest_framework.throttling.UserRateThrottle",
        "mcp_bridge.access.throttling.ToolRateThrottle",
    ],
    "THROTTLE_RATES": {"user": "100000/day", "tools": "100000/day"},
}
UNCOUNTED = "Calls cannot be counted"
FAULTS = pytest.mark.parametrize("begin", [Redis.down, Redis.frozen, Redis.full])
# With a tool that destroys, beside the one that a person confirms.
KINDS: dict[str, Callable[[Site], Any]] = {
    **REQUESTS,
    "destroy": lambda site: site.call("destroy"),
}


def site_with(
    rule: str, kind: str, sqlite: SQLite, cache: Redis, tmp_path_factory: Any
) -> Iterator[Site]:
    options = json.dumps({**OPTIONS, "THROTTLE_WITHOUT_CACHE": rule})
    place: Path = tmp_path_factory.mktemp("site")
    known = {"FAULTS_CACHE": cache.url, "FAULTS_OPTIONS": options}
    with serving(kind, sqlite.settings, sqlite.token, place, **known) as site:
        yield site


@pytest.fixture(scope="module", params=["gunicorn", "direct lane"])
def open_site(request: Any, sqlite: SQLite, cache: Redis, tmp_path_factory: Any) -> Iterator[Site]:
    """A site that answers though it cannot count."""
    yield from site_with("open", request.param, sqlite, cache, tmp_path_factory)


@pytest.fixture(scope="module", params=["gunicorn", "direct lane"])
def closed_site(
    request: Any, sqlite: SQLite, cache: Redis, tmp_path_factory: Any
) -> Iterator[Site]:
    """A site that answers nothing that it cannot count."""
    yield from site_with("closed", request.param, sqlite, cache, tmp_path_factory)


def wait_until_it_counts(site: Site) -> None:
    """Wait until all is good: the cache is asked again a second after it has failed."""
    wait_for(lambda: all(ask(site).is_good for ask in KINDS.values()))


@FAULTS
def test_an_open_site_answers_all_but_what_cannot_be_undone(
    begin: Callable[[Redis], Any], open_site: Site, cache: Redis
) -> None:
    wait_until_it_counts(open_site)
    with begin(cache):
        answers = {kind: ask(open_site) for kind, ask in KINDS.items()}
    assert {kind for kind, each in answers.items() if not each.is_good} == {"confirmed", "destroy"}
    for kind in ("confirmed", "destroy"):
        assert answers[kind].is_error
        assert "cannot be called right now: its calls cannot be counted" in answers[kind].text
    assert max(each.seconds for each in answers.values()) < SECONDS
    wait_until_it_counts(open_site)


@FAULTS
def test_a_closed_site_answers_503(
    begin: Callable[[Redis], Any], closed_site: Site, cache: Redis
) -> None:
    wait_until_it_counts(closed_site)
    with begin(cache):
        for kind, ask in KINDS.items():
            answer = ask(closed_site)
            assert answer.is_unavailable, (kind, answer)
            assert answer.seconds < SECONDS
    wait_until_it_counts(closed_site)


def test_a_cache_that_fails_again_and_again_is_logged_once_a_minute(
    open_site: Site, cache: Redis
) -> None:
    def warnings() -> int:
        return open_site.log.read_text().count(UNCOUNTED)

    began, before = time.monotonic(), warnings()
    for _ in range(2):
        with cache.down():
            assert open_site.call("destroy").is_error
        wait_until_it_counts(open_site)
    minutes = (time.monotonic() - began) // 60
    assert 1 <= warnings() <= before + 1 + minutes
