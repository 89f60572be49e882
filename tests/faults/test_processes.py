"""Tools that misbehave, and processes and clients that end while a call is under way."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import RemoteDisconnected
from pathlib import Path
from typing import Any

import pytest

from tests.faults.databases import Database, SQLite
from tests.faults.servers import wait_for
from tests.faults.serving import Site, all_good, new_name, run, serving, variables
from tests.faults.tools import WRONG

EVERY_DATABASE = pytest.mark.parametrize(
    "database", ["sqlite", "postgresql", "mariadb"], indirect=True
)
EVERY_SERVER = pytest.mark.parametrize(
    "site", ["gunicorn", "uvicorn", "direct lane"], indirect=True
)


@pytest.fixture(scope="module")
def site(request: Any, sqlite: SQLite, tmp_path_factory: Any) -> Iterator[Site]:
    place: Path = tmp_path_factory.mktemp("site")
    with serving(request.param, sqlite.settings, sqlite.token, place) as site:
        yield site


def count(database: Database, name: str) -> int:
    return int(database.query(f"SELECT count(*) FROM auth_group WHERE name = '{name}'")[0][0])


@EVERY_SERVER
@pytest.mark.parametrize("tool", ["go_wrong", "async_go_wrong"])
@pytest.mark.parametrize("how", WRONG)
def test_misbehaving_tool_ends_no_process_and_leaves_nothing(
    how: str, tool: str, site: Site, sqlite: SQLite
) -> None:
    before = site.call("worker").text
    answer = site.call(tool, how=how)
    assert answer.is_error, answer
    assert count(sqlite, how) == 0
    assert sqlite.outcomes(tool)[-1] == "failed"
    assert site.call("worker").text == before


@EVERY_SERVER
def test_site_is_intact_after_misbehaving_tools(site: Site) -> None:
    all_good(site)


def test_interrupt_of_the_main_thread_fails_only_its_request(
    sqlite: SQLite, tmp_path: Path
) -> None:
    with serving("gunicorn, one at a time", sqlite.settings, sqlite.token, tmp_path) as site:
        # It may be Ctrl-C in a command, so that the bridge raises it again: gunicorn answers.
        with closing(site.begin("go_wrong", how="KeyboardInterrupt")) as connection:
            assert connection.getresponse().status == 500
        all_good(site)
    assert count(sqlite, "KeyboardInterrupt") == 0
    assert sqlite.outcomes("go_wrong")[-1] == "started"


@EVERY_DATABASE
def test_killed_workers_call_is_rolled_back_and_recorded(
    database: Database, tmp_path: Path
) -> None:
    name, before = new_name(), database.outcomes("wait_and_act")
    with serving("gunicorn", database.settings, database.token, tmp_path) as site:
        with ThreadPoolExecutor() as pool:
            call = pool.submit(site.call, "wait_and_act", name=name, seconds=60)
            wait_for(lambda: database.outcomes("wait_and_act") == [*before, "started"])
            time.sleep(0.2)
            (worker,) = site.workers()
            os.kill(worker, signal.SIGKILL)
            with pytest.raises((RemoteDisconnected, ConnectionError)):
                call.result()
        wait_for(lambda: worker not in site.workers() and bool(site.workers()))
        all_good(site)
    assert count(database, name) == 0
    assert database.outcomes("wait_and_act")[-1] == "started"
    reap = ("-m", "django", "mcp_audit", "reap", "--older-than", "0s")
    run(*reap, **variables(database.settings))
    assert database.outcomes("wait_and_act")[-1] == "unknown"


@EVERY_DATABASE
def test_hanging_tool_is_ended_by_the_servers_timeout(database: Database, tmp_path: Path) -> None:
    name = new_name()
    with serving("gunicorn, one at a time", database.settings, database.token, tmp_path) as site:
        answer = site.call("wait_and_act", name=name, seconds=60)
        assert answer.is_error
        assert answer.seconds < 20
        assert count(database, name) == 0
        assert database.outcomes("wait_and_act")[-1] == "failed"
        all_good(site)


@EVERY_SERVER
def test_hanging_tool_delays_no_other_call(site: Site, sqlite: SQLite) -> None:
    before = sqlite.outcomes("wait_and_act")
    with ThreadPoolExecutor() as pool:
        call = pool.submit(site.call, "wait_and_act", name=new_name(), seconds=3)
        wait_for(lambda: sqlite.outcomes("wait_and_act") == [*before, "started"])
        assert site.call("idle").is_good
        assert not call.done()
        assert call.result().is_good


@pytest.mark.parametrize("site", ["uvicorn", "direct lane"], indirect=True)
def test_coroutine_is_cancelled_if_its_client_disconnects(site: Site, sqlite: SQLite) -> None:
    before = sqlite.outcomes("async_wait")
    with closing(site.begin("async_wait", seconds=60)):
        wait_for(lambda: sqlite.outcomes("async_wait") == [*before, "started"])
    wait_for(lambda: sqlite.outcomes("async_wait") == [*before, "cancelled"])
    all_good(site)


@EVERY_SERVER
def test_function_runs_to_its_end_if_its_client_disconnects(site: Site, sqlite: SQLite) -> None:
    name, before = new_name(), sqlite.outcomes("wait_and_act")
    with closing(site.begin("wait_and_act", name=name, seconds=1)):
        wait_for(lambda: sqlite.outcomes("wait_and_act") == [*before, "started"])
    wait_for(lambda: sqlite.outcomes("wait_and_act") == [*before, "succeeded"])
    assert count(sqlite, name) == 1
    all_good(site)
