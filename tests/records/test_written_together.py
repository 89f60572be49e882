"""Records that are written together: none is lost or doubled, whatever the database does."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from mcp_bridge import Context
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.records.rows import flush, writer
from mcp_bridge.records.writer import IDLE, LIMIT
from mcp_bridge.server.perform import call
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support import apart
from tests.support.processes import run_python
from tests.support.recording import look, write
from tests.support.serving import served
from tests.support.values import dumps

TABLE = ToolCallRecord._meta.db_table
place, database = apart.place, apart.database


# Of no test's transaction, so that other connections see them.
pytestmark = [
    pytest.mark.alone,
    pytest.mark.django_db(transaction=True, databases=["default", "apart"]),
]


@pytest.fixture
def lost(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """Counts the records that the log calls lost."""

    def count() -> int:
        errors = [each for each in caplog.records if each.name == "mcp_bridge.records"]
        assert {each.levelno for each in errors} <= {logging.ERROR, logging.WARNING}
        return sum("is lost" in each.getMessage() for each in errors)

    return count


@contextmanager
def locked(database: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else writes to the database, and takes their time."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other
        if other.in_transaction:
            other.execute("COMMIT")


def looks(settings: Any, count: int, **options: Any) -> Callable[[], None]:
    """Makes calls of a read-only tool, after which nobody looks at the records."""
    serve(settings, look, read_only=True, public=True, **options)
    tool = served("look")

    def make() -> None:
        for number in range(count):
            call(tool, {"word": str(number)}, Context(user=None))

    return make


@contextmanager
def one_bad_record_of_ten(database: Path, settings: Any, failure: str) -> Iterator[None]:
    """Ten calls are made, and the database takes all records but one for as long as this lasts."""
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "full"}}
    with closing(sqlite3.connect(database)) as other:
        other.execute(
            f"CREATE TRIGGER failing BEFORE INSERT ON {TABLE} WHEN NEW.arguments LIKE '%\"3%' "
            f"BEGIN SELECT {failure}; END"
        )
        looks(settings, 10)()
        yield
        other.execute("DROP TRIGGER failing")


def commits(database: Path) -> int:
    """How often a file of SQLite was changed (its file change counter)."""
    return int.from_bytes(database.read_bytes()[24:28], "big")


def test_many_calls_take_few_commits_and_are_all_on_record(database: Path, settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "full"}}
    before = commits(database)
    looks(settings, 450)()
    flush()
    assert commits(database) - before < 100
    rows = list(ToolCallRecord.objects.order_by("pk"))
    assert [each.arguments for each in rows] == [f'{{"word": "{each}"}}' for each in range(450)]
    assert rows == sorted(rows, key=lambda each: each.started_at)
    assert {each.outcome for each in rows} == {"succeeded"}


def test_a_record_is_written_soon_though_no_other_follows(database: Path, settings: Any) -> None:
    make = looks(settings, 1)
    with CaptureQueriesContext(connections["apart"]) as asked:
        make()
    # Not by its caller, who may be so slow that it is written by now.
    assert asked.captured_queries == []
    # Nor because the thread ends when there is nothing more to do.
    until = time.monotonic() + IDLE / 2
    while not ToolCallRecord.objects.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert ToolCallRecord.objects.get().outcome == "succeeded"


@pytest.mark.parametrize("wanted", ["now", "ahead"])
def test_each_is_written_at_once_where_that_is_wanted(
    wanted: str, database: Path, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"WRITE": wanted}}
    looks(settings, 3)()
    assert ToolCallRecord.objects.count() == 3


def test_a_transaction_of_the_callers_takes_its_records_with_it(
    database: Path, settings: Any
) -> None:
    make = looks(settings, 3)
    with transaction.atomic(using="apart"):
        make()
        assert ToolCallRecord.objects.count() == 3
        # Does not wait for the transaction that it is in.
        flush()
        transaction.set_rollback(True, using="apart")
    flush()
    assert not ToolCallRecord.objects.exists()


def test_a_client_of_tests_sees_the_record_of_each_call(
    database: Path, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, look, read_only=True)
    for count in range(1, 4):
        modern.call_tool("look")
        assert ToolCallRecord.objects.count() == count
    with pytest.raises(MCPError):
        modern.call_tool("nothing")
    assert ToolCallRecord.objects.latest("pk").outcome == "refused"


def test_a_record_that_the_database_refuses_takes_no_other_with_it(
    database: Path, settings: Any, lost: Callable[[], int]
) -> None:
    with one_bad_record_of_ten(database, settings, "RAISE(ABORT, 'not this one')"):
        flush()
    assert (ToolCallRecord.objects.count(), lost()) == (9, 1)


def test_a_lock_that_is_held_for_a_while_loses_nothing(
    database: Path, settings: Any, lost: Callable[[], int]
) -> None:
    with locked(database) as other:
        looks(settings, 5)()
        time.sleep(0.5)
        other.execute("COMMIT")
    flush()
    assert (ToolCallRecord.objects.count(), lost()) == (5, 0)


def test_what_a_lock_keeps_out_is_written_when_it_ends(
    database: Path, settings: Any, lost: Callable[[], int], caplog: pytest.LogCaptureFixture
) -> None:
    make = looks(settings, 300)
    with locked(database):
        for _ in range(4):
            make()
            began = time.monotonic()
            # Asks once more, and waits no longer.
            flush()
            assert time.monotonic() - began < 5
        assert not ToolCallRecord.objects.exists()
        # For as long as it takes, until each is tried alone.
        assert writer._attempts >= 4
    make()
    flush()
    rows = list(ToolCallRecord.objects.order_by("started_at"))
    assert (len(rows), lost()) == (1500, 0)
    said = [each.getMessage() for each in caplog.records if each.name == "mcp_bridge.records"]
    assert len(said) == 2
    assert "records of calls are waiting: the database is unavailable" in said[0]
    assert said[1] == "The waiting records of calls have been written"


def test_a_bad_record_does_not_keep_others_from_a_database_that_was_away(
    database: Path, settings: Any, lost: Callable[[], int]
) -> None:
    # Fails as a lock does, and for good.
    with one_bad_record_of_ten(database, settings, "abs(-9223372036854775807 - 1)"):
        for _ in range(8):
            flush()
        assert (ToolCallRecord.objects.count(), lost()) == (9, 0)
    flush()
    assert (ToolCallRecord.objects.count(), lost()) == (10, 0)


def test_no_caller_waits_however_many_records_do(
    database: Path, settings: Any, lost: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The connections of other threads are new ones.
    monkeypatch.setitem(connections.settings["apart"], "OPTIONS", {"timeout": 60})
    # The thread may have taken as many as may wait.
    count = 2 * LIMIT + 300
    make = looks(settings, count)

    def work() -> None:
        make()
        connections.close_all()

    with ThreadPoolExecutor(1) as pool, locked(database) as other:
        pool.submit(work).result(30)
        other.execute("COMMIT")
    flush()
    assert (ToolCallRecord.objects.count(), lost()) == (count, 0)


def test_what_cannot_be_kept_is_lost_and_logged(
    database: Path, settings: Any, lost: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KEPT", "LIMIT"):
        monkeypatch.setattr(f"mcp_bridge.records.writer.{name}", 10)
    make = looks(settings, 40)
    with locked(database):
        make()
        flush()
        make()
    flush()
    assert ToolCallRecord.objects.count() + lost() == 80
    assert 10 <= ToolCallRecord.objects.count() <= 20


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("then", ["done", "refuse"])
def test_a_tool_that_acts_while_records_are_locked_out_is_on_record_after_it(
    then: str,
    required: bool,
    database: Path,
    modern: CheckedClient,
    settings: Any,
    lost: Callable[[], int],
) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"REQUIRED": required}}
    serve(settings, write)
    with locked(database):
        result = modern.call_tool("write", {"then": then})
        assert result["isError"] is (required or then == "refuse")
        assert Group.objects.filter(name="written").exists() is (not required and then == "done")
    flush()
    if required:
        expected = ("refused", "unrecorded", None)
    elif then == "done":
        expected = ("succeeded", "", modern.response.json())
    else:
        expected = ("failed", "tool_error", modern.response.json())
    found = ToolCallRecord.objects.get()
    assert (found.outcome, found.error_code) == expected[:2]
    assert (found.result_bytes is None) is required
    assert lost() == 0


def test_the_end_of_a_call_that_is_locked_out_is_written_later(
    database: Path, modern: CheckedClient, settings: Any, lost: Callable[[], int]
) -> None:
    def act() -> str:
        """Act while somebody else takes the lock."""
        other.execute("BEGIN IMMEDIATE")
        return "done"

    serve(settings, act)
    with closing(sqlite3.connect(database, isolation_level=None, check_same_thread=False)) as other:
        assert modern.call_tool("act")["isError"] is False
        assert ToolCallRecord.objects.get().outcome == "started"
        other.execute("COMMIT")
    flush()
    assert (ToolCallRecord.objects.get().outcome, lost()) == ("succeeded", 0)


def test_refusals_are_counted_together(
    database: Path, settings: Any, lost: Callable[[], int]
) -> None:
    serve(settings, look, read_only=True)
    clients = [CheckedClient() for _ in range(4)]

    def attempt(client: CheckedClient) -> None:
        for number in range(50):
            message = client.message("tools/call", name=f"made up {number}")
            client.send(dumps(message), client.mirrored(message))
            time.sleep(number / 5000)
        connections.close_all()

    with ThreadPoolExecutor(4) as pool, locked(database) as other:
        attempts = [pool.submit(attempt, client) for client in clients]
        time.sleep(0.4)
        other.execute("COMMIT")
        for each in attempts:
            each.result(30)
    flush()
    found = ToolCallRecord.objects.get()
    assert (found.error_code, found.times, lost()) == ("unauthenticated", 200, 0)


ENDING = """
import os, sqlite3, sys, threading, time
import django
django.setup()
from django.db import connection
from mcp_bridge.models import ToolCallRecord
from tests.support.recording import call_in_script

connection.settings_dict["OPTIONS"]["timeout"] = 0.2
from django.db import connections
connections.settings["default"]["OPTIONS"]["timeout"] = 0.2
with connection.schema_editor() as editor:
    editor.create_model(ToolCallRecord)
connection.close()
place = os.environ["SERVED_DATABASE"]
other = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
other.execute("BEGIN IMMEDIATE")
threading.Timer(float(sys.argv[1]), other.execute, ["COMMIT"]).start()
call_in_script(5)
"""


def test_a_script_that_ends_while_the_database_is_locked_leaves_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "locked.sqlite3"
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.processes.served_settings")
    monkeypatch.setenv("SERVED_DATABASE", str(place))
    run_python("-c", ENDING, "2")
    with closing(sqlite3.connect(place)) as other:
        assert other.execute(f"SELECT count(*) FROM {TABLE}").fetchone() == (5,)


FORKING = """
import os, sys, warnings
import django
django.setup()
from django.db import connection
from mcp_bridge.records.rows import flush
from mcp_bridge.models import ToolCallRecord
from tests.support.recording import call_in_script

warnings.simplefilter("ignore", DeprecationWarning)
with connection.schema_editor() as editor:
    editor.create_model(ToolCallRecord)
call_in_script(5)
connection.close()
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        call_in_script(7)
        sys.exit()
    children.append(child)
    call_in_script(1)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
flush()
print(ToolCallRecord.objects.count())
"""


def test_a_fork_neither_loses_nor_doubles_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.processes.served_settings")
    monkeypatch.setenv("SERVED_DATABASE", str(tmp_path / "forked.sqlite3"))
    assert run_python("-c", FORKING) == f"{5 + 3 * 7 + 3}\n"


def test_a_script_that_ends_leaves_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "script.sqlite3"
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.processes.served_settings")
    monkeypatch.setenv("SERVED_DATABASE", str(place))
    run_python("-c", FORKING.partition("connection.close()")[0])
    with closing(sqlite3.connect(place)) as other:
        assert other.execute(f"SELECT count(*) FROM {TABLE}").fetchone() == (5,)
