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
from django.db import connections, transaction

from mcp_bridge import Context
from mcp_bridge.audit.rows import flush
from mcp_bridge.audit.writer import LIMIT
from mcp_bridge.conf import Audit
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.server.calls import call
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.processes import run_python
from tests.support.recording import look
from tests.support.serving import served

TABLE = ToolCallRecord._meta.db_table


# Of no test's transaction, so that other connections see them.
pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "apart"])


class Apart:
    """Records are written to a database of their own, and read there."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "apart" if model is ToolCallRecord else None

    db_for_read = db_for_write

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if db == "apart" else None


@pytest.fixture(autouse=True, scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file, for which writers wait a fifth of a second."""
    place = tmp_path_factory.mktemp("apart") / "records.sqlite3"
    config = {**connections.settings["default"], "ENGINE": "django.db.backends.sqlite3"}
    config |= {"NAME": place, "OPTIONS": {"timeout": 0.2}}
    connections.settings["apart"] = config
    yield place
    connections["apart"].close()
    del connections["apart"]
    del connections.settings["apart"]


@pytest.fixture
def database(place: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file with an empty table of records, to which they are written."""
    # Also where all tests have another default.
    monkeypatch.setattr(Audit, "WRITE", "together")
    settings.DATABASE_ROUTERS = [f"{__name__}.Apart"]
    with connections["apart"].schema_editor() as editor:
        editor.create_model(ToolCallRecord)
    yield place
    flush()
    with connections["apart"].schema_editor() as editor:
        editor.delete_model(ToolCallRecord)
    connections["apart"].close()


@pytest.fixture
def lost(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """Counts the records that the log calls lost."""

    def count() -> int:
        errors = [each for each in caplog.records if each.name == "mcp_bridge.audit"]
        assert {each.levelno for each in errors} <= {logging.ERROR}
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
    looks(settings, 1)()
    assert not ToolCallRecord.objects.exists()
    until = time.monotonic() + 10
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
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "full"}}
    with closing(sqlite3.connect(database)) as other:
        other.execute(
            f"CREATE TRIGGER refusing BEFORE INSERT ON {TABLE} WHEN NEW.arguments LIKE '%\"3%' "
            "BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )
    looks(settings, 10)()
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


def test_what_a_lock_keeps_out_for_good_is_reported_as_lost(
    database: Path, settings: Any, lost: Callable[[], int]
) -> None:
    make = looks(settings, 3)
    with locked(database):
        make()
        flush()
    make()
    flush()
    assert (ToolCallRecord.objects.count(), lost()) == (3, 3)


def test_where_no_more_can_wait_the_caller_writes(
    database: Path, settings: Any, lost: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The connections of other threads are new ones.
    monkeypatch.setitem(connections.settings["apart"], "OPTIONS", {"timeout": 60})
    # The thread may have taken as many as may wait.
    count = 2 * LIMIT + 300
    make = looks(settings, count)

    def work() -> None:
        make()
        connections["apart"].close()

    with ThreadPoolExecutor(1) as pool, locked(database) as other:
        calling = pool.submit(work)
        with pytest.raises(TimeoutError):
            # Its own connection waits for the lock.
            calling.result(3)
        other.execute("COMMIT")
        calling.result(60)
    flush()
    assert (ToolCallRecord.objects.count(), lost()) == (count, 0)


FORKING = """
import os, sys, warnings
import django
django.setup()
from django.db import connection
from mcp_bridge import Context
from mcp_bridge.audit.rows import flush
from mcp_bridge.features import Tool
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.server.calls import call

warnings.simplefilter("ignore", DeprecationWarning)
with connection.schema_editor() as editor:
    editor.create_model(ToolCallRecord)
tool = Tool(
    name="look", description="", input_schema={"type": "object"}, check=dict,
    invoke=lambda call: 1, encode=lambda value: CallToolResult.error("no"),
    annotations={"readOnlyHint": True},
)
for _ in range(5):
    call(tool, {}, Context(user=None))
connection.close()
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        for _ in range(7):
            call(tool, {}, Context(user=None))
        sys.exit()
    children.append(child)
    call(tool, {}, Context(user=None))
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
