"""A tool that blocks writes to SQLite is named, and recording a use never waits for it."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core import checks
from django.db import OperationalError, connections, transaction
from django.utils import timezone

from mcp_bridge import Context
from mcp_bridge.access.locks import atomic_without_waiting
from mcp_bridge.calls import running
from mcp_bridge.checks import tools
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol import CallToolResult
from mcp_bridge.server.perform import acall, call
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from testproject.newsroom.procedures.archive import recount_archive
from tests.support.serving import served

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "filed"])


@pytest.fixture(autouse=True, scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A database of SQLite in a file, in which each call has a transaction."""
    place = tmp_path_factory.mktemp("filed") / "filed.sqlite3"
    config = {**connections.settings["default"], "ENGINE": "django.db.backends.sqlite3"}
    config |= {"NAME": place, "OPTIONS": {}, "ATOMIC_REQUESTS": True}
    connections.settings["filed"] = config
    running._databases.cache_clear()
    yield place
    connections["filed"].close()
    del connections["filed"]
    del connections.settings["filed"]
    running._databases.cache_clear()


def named(caplog: pytest.LogCaptureFixture) -> list[str]:
    messages = [each.getMessage() for each in caplog.records]
    return [each for each in messages if "locked" in each and "'filed'" in each]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("mode", "writes", "fails", "expected"),
    [
        (None, True, False, True),
        (None, True, True, True),
        (None, False, False, False),
        ("IMMEDIATE", False, False, True),
    ],
)
def test_tool_holding_the_lock_is_logged(
    mode: str | None,
    writes: bool,
    fails: bool,
    expected: bool,
    asynchronous: bool,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {} if mode is None else {"transaction_mode": mode}
    monkeypatch.setitem(connections.settings["filed"], "OPTIONS", options)
    connections["filed"].close()
    del connections["filed"]

    def slowly() -> str:
        """Take a while."""
        with connections["filed"].cursor() as cursor:
            if writes:
                cursor.execute("CREATE TABLE IF NOT EXISTS t (x)")
                cursor.execute("INSERT INTO t VALUES (1)")
            else:
                cursor.execute("SELECT 1")
        if fails:
            raise RuntimeError("whatever")
        return "done"

    serve(settings, slowly, asynchronous=asynchronous)

    def make() -> bool:
        # Not in a view's transaction: the view was built before this database was configured.
        make_call = async_to_sync(acall) if asynchronous else call
        result = make_call(served("slowly"), {}, Context(user=None))
        assert isinstance(result, CallToolResult)
        return result.is_error

    assert make() is fails
    assert named(caplog) == []
    monkeypatch.setattr(running, "LONG", 0.0)
    make()
    (text,) = named(caplog) if expected else [""]
    assert ("The tool 'slowly' kept the SQLite database 'filed' locked" in text) is expected
    assert ("non_atomic_requests" in text) is expected
    connections["filed"].close()


def test_newsroom_recount_does_not_hold_the_lock() -> None:
    assert recount_archive._non_atomic_requests == {"default"}  # type: ignore[attr-defined]


def test_non_waiting_write_restores_the_connection(place: Path) -> None:
    connection = connections["filed"]
    connection.ensure_connection()
    waits = connection.connection.execute("PRAGMA busy_timeout").fetchone()
    assert waits != (0,)
    with closing(sqlite3.connect(place, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with (
            pytest.raises(OperationalError, match="locked"),
            atomic_without_waiting("filed"),
            connection.cursor() as cursor,
        ):
            cursor.execute("CREATE TABLE never (x)")
        assert time.monotonic() - began < waits[0] / 2000
        other.execute("COMMIT")
    assert connection.connection.execute("PRAGMA busy_timeout").fetchone() == waits
    with transaction.atomic(using="filed"), atomic_without_waiting("filed"):
        assert connection.in_atomic_block
    connection.close()


def test_token_works_if_its_use_cannot_be_recorded(
    user: Any, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """On any database, another connection may be changing the token's row."""
    token, secret = Token.objects.issue(user=user, name="laptop")

    def look() -> str:
        """Look."""
        return "seen"

    serve(settings, look, read_only=True)
    client = CheckedClient(token=secret)

    def locked(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith("UPDATE") and "token" in sql:
            raise OperationalError("database is locked")
        return execute(sql, *rest)

    with connections["default"].execute_wrapper(locked):
        assert client.call_tool("look")["isError"] is False
    assert Token.objects.get().last_used_at is None
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []
    assert client.call_tool("look")["isError"] is False
    assert Token.objects.get().last_used_at is not None


def test_w016_tool_recently_held_the_sqlite_lock(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act() -> None:
        """Act."""

    def read() -> None:
        """Read."""

    @transaction.non_atomic_requests
    def apart() -> None:
        """Act in short transactions."""

    serve(settings, act, apart)
    now = timezone.now()
    for tool, duration, ago in [
        ("act", 4200, 1),
        ("act", 1300, 2),
        ("act", 200, 1),
        ("act", 9000, 8),
        ("apart", 9000, 1),
        ("gone", 9000, 1),
    ]:
        at = now - timedelta(days=ago)
        ToolCallRecord.objects.create(tool=tool, duration_ms=duration, started_at=at)

    def found(**options: Any) -> list[str]:
        messages = checks.run_checks(tags=["mcp_bridge"], **options)
        return [each.msg for each in messages if each.id == "mcp_bridge.W016"]

    monkeypatch.setattr(tools, "is_sqlite_file", lambda connection: True)
    (text,) = found(databases=["default"])
    assert "'act'" in text
    assert "up to 4.2 s" in text
    assert "(2 of its calls" in text
    # A command that names no database queries none.
    assert found(databases=[]) == []
    # Without a transaction around it.
    serve(settings, act, task=True)
    assert found(databases=["default"]) == []
    monkeypatch.undo()
    if (
        connections["default"].is_in_memory_db()
        if hasattr(connections["default"], "is_in_memory_db")
        else True
    ):
        assert found(databases=["default"]) == []
