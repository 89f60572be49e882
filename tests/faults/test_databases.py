"""Database servers that are away, slow, full or locked while a site is served."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.faults.databases import CONNECT, STATEMENT, Database, Fault, MariaDB, SQLite
from tests.faults.servers import wait_for
from tests.faults.serving import REQUESTS, Answer, Site, all_good, new_name, serving

# Seconds for a busy machine; the servers' own timeouts would be much longer.
SLACK = 4
# The longest wait of a request: three statements, each as long as the database lets it.
LOCKED = 3 * STATEMENT + SLACK
GENERATIONS, RECORDS, GROUPS = "mcp_bridge_generation", "mcp_bridge_toolcallrecord", "auth_group"

SERVERS = [
    ("postgresql", "gunicorn"),
    ("postgresql", "uvicorn"),
    ("postgresql", "direct lane"),
    ("mariadb", "gunicorn"),
    ("mariadb", "direct lane"),
]
FILES = [("sqlite", "gunicorn"), ("sqlite", "direct lane")]
ON_SERVERS = pytest.mark.parametrize(("database", "site"), SERVERS, indirect=True)
ON_FILES = pytest.mark.parametrize(("database", "site"), FILES, indirect=True)
EVERYWHERE = pytest.mark.parametrize(("database", "site"), SERVERS + FILES, indirect=True)


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    place: Path = tmp_path_factory.mktemp("site")
    with serving(request.param, database.settings, database.token, place) as site:
        yield site


def count(database: Database, table: str = GROUPS) -> int:
    return int(database.query(f"SELECT count(*) FROM {table}")[0][0])


def on_record(database: Database, tool: str, since: object, *outcomes: str) -> bool:
    """Return whether the calls of a tool that began after a time are on record, each once."""
    found = database.outcomes(tool, since)
    assert len(found) <= len(outcomes), found
    return found == [*outcomes]


def ask_all(site: Site, seconds: float, *kinds: str) -> dict[str, Answer]:
    """Send a request of each kind, or of these; return the answers, all of which came in time."""
    # By then the registry queries the database again.
    time.sleep(1)
    answers = {kind: REQUESTS[kind](site) for kind in kinds or REQUESTS}
    for kind, answer in answers.items():
        assert answer.seconds < seconds, kind
    return answers


@ON_SERVERS
@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(Database.down, id="down"),
        pytest.param(Database.out_of_connections, id="out of connections"),
    ],
)
def test_database_that_takes_no_connection_is_503(
    begin: Fault, site: Site, database: Database
) -> None:
    all_good(site)
    with begin(database):
        for kind, answer in ask_all(site, SLACK).items():
            assert answer.is_unavailable, (kind, answer)
    all_good(site)


@ON_SERVERS
def test_database_that_does_not_answer_is_503(site: Site, database: Database) -> None:
    with database.hung():
        for kind, answer in ask_all(site, CONNECT + SLACK, "list", "act", "with a token").items():
            assert answer.is_unavailable, (kind, answer)
    all_good(site)


@EVERYWHERE
def test_database_without_its_tables_is_503(site: Site, database: Database) -> None:
    with database.without(GENERATIONS):
        for kind, answer in ask_all(site, SLACK).items():
            assert answer.is_unavailable, (kind, answer)
    all_good(site)


@EVERYWHERE
def test_locked_database_is_503(site: Site, database: Database) -> None:
    with database.locked(GENERATIONS):
        for kind, answer in ask_all(site, STATEMENT + SLACK, "list", "act").items():
            assert answer.is_unavailable, (kind, answer)
    all_good(site)


@EVERYWHERE
def test_missing_column_is_503_for_requests_that_read_it(site: Site, database: Database) -> None:
    with database.without_column("mcp_bridge_tokens_token", "revoked_at"):
        answers = ask_all(site, SLACK)
    for kind in ("with a token", "confirmed"):
        assert answers[kind].is_unavailable, answers[kind]
    assert answers["act"].is_good
    all_good(site)


@ON_SERVERS
def test_killed_connections_fail_no_call(site: Site, database: Database) -> None:
    all_good(site)
    with database.killed():
        all_good(site)


def refused(site: Site, seconds: float = SLACK, groups: int = 1) -> None:
    """Check that a tool that writes groups reports in time that the database failed."""
    answer = site.call("fill", count=groups)
    assert answer.is_error, answer
    assert "could not use the site's database" in answer.text
    assert "the same call may succeed later" in answer.text
    assert answer.seconds < seconds


@EVERYWHERE
@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(lambda each: each.without(GROUPS), id="missing"),
        pytest.param(lambda each: each.full(), id="full"),
    ],
)
def test_tool_that_cannot_write_reports_it(begin: Fault, site: Site, database: Database) -> None:
    before = count(database)
    with begin(database):
        # So many that they need room.
        refused(site, LOCKED, groups=15_000)
        assert site.call("idle").is_good
    assert count(database) == before
    all_good(site)


@ON_SERVERS
@pytest.mark.parametrize(
    ("begin", "seconds"),
    [
        pytest.param(lambda each: each.locked(GROUPS), LOCKED, id="locked"),
        pytest.param(lambda each: each.read_only(), SLACK, id="read-only"),
    ],
)
def test_tool_that_cannot_write_for_now_reports_it(
    begin: Fault, seconds: float, site: Site, database: Database
) -> None:
    with begin(database):
        refused(site, seconds)
        assert site.call("idle").is_good
    all_good(site)


def test_read_only_file_is_read(sqlite: SQLite, tmp_path: Path) -> None:
    with serving("gunicorn", sqlite.read_only_settings, sqlite.token, tmp_path) as site:
        answers = ask_all(site, SLACK)
        refused(site)
    assert {kind for kind, each in answers.items() if each.is_good} == {
        *("list", "read", "with a token")
    }


@EVERYWHERE
def test_row_refused_by_the_database_is_a_tool_error(site: Site, database: Database) -> None:
    before = count(database)
    with database.refusing(GROUPS):
        answers = ask_all(site, SLACK)
    failed = [kind for kind, each in answers.items() if not each.is_good]
    assert failed == ["act", "act in a coroutine"]
    assert answers["act"].is_error
    assert answers["act in a coroutine"].is_error
    assert count(database) == before
    all_good(site)


@EVERYWHERE
@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(lambda each: each.without(RECORDS), id="missing"),
        pytest.param(lambda each: each.refusing(RECORDS), id="refusing"),
    ],
)
def test_records_that_cannot_be_written_change_no_answer(
    begin: Fault, site: Site, database: Database
) -> None:
    with begin(database):
        for kind, answer in ask_all(site, SLACK).items():
            assert answer.is_good, (kind, answer)
    all_good(site)


@ON_SERVERS
def test_locked_records_delay_a_call_and_are_written_later(site: Site, database: Database) -> None:
    all_good(site)
    # Some of earlier calls may still wait: MariaDB reports a trigger's refusal like a lock.
    since = database.last_call()
    with database.locked(RECORDS):
        for kind, answer in ask_all(site, LOCKED, "read", "act").items():
            assert answer.is_good, (kind, answer)
        assert site.call("worker").is_good
    # They are kept until the table takes them, and each is written once.
    for tool in ("look", "act", "worker"):
        wait_for(partial(on_record, database, tool, since, "succeeded"))
    all_good(site)


@pytest.mark.parametrize(("database", "site"), SERVERS[3:], indirect=True)
def test_record_is_written_once_if_its_client_timed_out(site: Site, database: Database) -> None:
    all_good(site)
    # Until all earlier records are written, so that this one is being sent.
    time.sleep(1)
    since = database.last_call()
    assert site.call("worker").is_good
    with database.frozen():
        # Longer than read_timeout; the server still executes the statements.
        time.sleep(2 * STATEMENT + 0.5)
    wait_for(partial(on_record, database, "worker", since, "succeeded"))
    time.sleep(2 * STATEMENT + 2)
    assert on_record(database, "worker", since, "succeeded")
    all_good(site)


@pytest.mark.parametrize("server", ["gunicorn", "direct lane"])
def test_slow_record_is_written_once_despite_a_client_timeout(
    server: str, mariadb: MariaDB, tmp_path: Path
) -> None:
    with serving(server, mariadb.impatient_settings, mariadb.token, tmp_path) as site:
        all_good(site)
        since = mariadb.last_call()
        with mariadb.slow(RECORDS, 0.75 * STATEMENT):
            assert site.call("worker").is_good
            wait_for(partial(on_record, mariadb, "worker", since, "succeeded"))
            # Any second copy that was sent has been written by then.
            time.sleep(2 * STATEMENT)
            assert on_record(mariadb, "worker", since, "succeeded")
        all_good(site)


@ON_SERVERS
def test_database_freezing_in_a_call_delays_only_that_call(site: Site, database: Database) -> None:
    before, name = count(database), new_name()
    with ThreadPoolExecutor() as pool:
        call = pool.submit(site.call, "wait_and_act", name=name, seconds=0.5)
        time.sleep(0.25)
        with database.frozen():
            time.sleep(1)
    answer = call.result()
    # MariaDB's client gives up after its read_timeout; PostgreSQL's has none.
    assert answer.is_good or answer.is_error
    assert count(database) == before + answer.is_good
    all_good(site)


@ON_SERVERS
def test_connection_killed_in_a_call_rolls_that_call_back(site: Site, database: Database) -> None:
    before, known = count(database), database.outcomes("wait_and_act")
    with ThreadPoolExecutor() as pool:
        call = pool.submit(site.call, "wait_and_act", name=new_name(), seconds=3)
        wait_for(lambda: database.outcomes("wait_and_act") == [*known, "started"])
        # Until the tool has written its group.
        time.sleep(1)
        with database.killed():
            answer = call.result()
    assert answer.is_error
    assert "could not use the site's database" in answer.text
    assert count(database) == before
    all_good(site)
