"""Records that could not be written: their lines in the log, and how they come back."""

from __future__ import annotations

import io
import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.core.management import CommandError, call_command
from django.core.signing import Signer
from django.db import DatabaseError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import OperationalError
from django.test import Client
from pydantic import SecretStr

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.records import rows
from mcp_bridge.records.record import signed
from mcp_bridge.records.repeats import refusals
from mcp_bridge.records.rows import flush
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.processes import ROOT, try_python
from tests.support.recording import look, record, write

TABLE = ToolCallRecord._meta.db_table
POSTGRESQL = connection.vendor == "postgresql"
MARKER = "SECRET-MARKER"
VALUES = [each.attname for each in ToolCallRecord._meta.concrete_fields if not each.primary_key]


def sign(key: SecretStr, word: str) -> str:
    """Sign a word."""
    return word


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines in which the log has lost records, as a file of a site would have them."""
    found = [each for each in caplog.records if each.name == "mcp_bridge.records.lost"]
    assert {each.levelname for each in found} <= {"ERROR"}
    return [f"2026-07-28 {each.levelname} {each.getMessage()}\n" for each in found]


def refuse(verb: str, *tables: str) -> Callable[..., Any]:
    """Make every statement of that kind on a table fail."""

    def execute(run: Callable[..., Any], sql: str, *args: Any) -> Any:
        if sql.startswith(verb) and any(f'"{each}"' in sql for each in tables):
            raise DatabaseError("no space is left")
        return run(sql, *args)

    return execute


def restore(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give lines to the command; return its output."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    out = io.StringIO()
    call_command("mcp_audit", "restore", stdout=out)
    return out.getvalue()


def test_lost_record_is_logged_without_secrets_and_restored(
    modern: CheckedClient,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "redacted"}}
    arguments = {"key": MARKER, "word": "a\u2028\n\u202eb"}
    serve(settings, sign)
    assert modern.call_tool("sign", arguments)["isError"] is False
    kept = record()
    kept.delete()
    with connection.execute_wrapper(refuse("INSERT", TABLE)):
        assert modern.call_tool("sign", arguments)["isError"] is False
        flush()
    assert not ToolCallRecord.objects.exists()
    (line,) = lines(caplog)
    assert line.isascii()
    assert MARKER not in caplog.text
    # Restored once: existing records are not written again.
    for _ in range(2):
        assert restore(f"another line\n{line}", monkeypatch).startswith("1 records restored; 1 ")
    found = record()
    differ = {name for name in VALUES if getattr(found, name) != getattr(kept, name)}
    assert differ <= {"started_at", "duration_ms"}
    assert (found.outcome, found.user_name) == ("succeeded", "ada")
    assert "[redacted]" in found.arguments


@pytest.mark.parametrize(("then", "outcome"), [("done", "succeeded"), ("refuse", "failed")])
def test_lost_end_of_a_call_is_restored(
    then: str,
    outcome: str,
    modern: CheckedClient,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve(settings, write)
    with connection.execute_wrapper(refuse("UPDATE", TABLE)):
        modern.call_tool("write", {"then": then})
    assert record().outcome == "started"
    restore("".join(lines(caplog)), monkeypatch)
    assert (record().outcome, record().tool) == (outcome, "write")


def test_lost_refusals_are_restored_with_their_number(
    modern: CheckedClient,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve(settings, look)

    def refused() -> None:
        with pytest.raises(MCPError):
            modern.call_tool("nothing")

    refused()
    with connection.execute_wrapper(refuse("UPDATE", TABLE)):
        refused()
    assert record().times == 1
    (line,) = lines(caplog)
    assert json.loads(line[line.index("{") :])["times"] == 2
    for written in (1, 2, 5):
        ToolCallRecord.objects.update(times=written)
        restore(line, monkeypatch)
        # A later number stays.
        assert record().times == max(written, 2)


WHEN = "2026-07-28T12:00:00.000001+00:00"
FORGED: dict[str, Any] = {
    "insert": {"started_at": WHEN, "remote_address": "", "tool": "wipe", "user_name": "ada"},
    "rewrite": {"id": "ROW", "tool": "look", "user_name": "eve", "outcome": "failed"},
    "signature of another kind": {"id": "ROW", "tool": "look", "signature": 5},
    "made up": {"id": "ROW", "tool": "look", "signature": "A" * 43},
    "other salt": {"id": "ROW", "tool": "look", "signature": "SIGNED"},
    "empty": {"id": "ROW", "tool": "look", "user_name": "eve", "signature": ""},
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_forged_lines_restore_nothing(
    forged: dict[str, Any],
    user: Any,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve(settings, look)
    CheckedClient(user=user).call_tool("look")
    before = ToolCallRecord.objects.values().get()
    forged = {name: str(before["id"]) if each == "ROW" else each for name, each in forged.items()}
    if forged.get("signature") == "SIGNED":
        forged["signature"] = Signer().signature(json.dumps({**forged, "signature": None}))
    Client().get("/" + quote(json.dumps(forged)))
    logged = [each.getMessage() for each in caplog.records if each.name == "django.request"]
    assert json.dumps(forged) in "".join(logged)
    said = restore("\n".join(logged), monkeypatch)
    assert said == "0 records restored; 1 lines without a record signed by this site.\n"
    assert ToolCallRecord.objects.values().get() == before


def lost_line(
    settings: Any, client: CheckedClient, caplog: pytest.LogCaptureFixture, verb: str
) -> str:
    """Return the line of a call with a lost record."""
    settings.MCP_BRIDGE = {"AUDIT": {"WRITE": "now"}}
    serve(settings, look)
    with connection.execute_wrapper(refuse(verb, TABLE)):
        client.call_tool("look")
    (line,) = lines(caplog)
    return line


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"ada"', '"eve"'),
        ('"look"', '"wipe"'),
        ('"succeeded"', '"failed"'),
        ('{"', '{"more": 1, "'),
        ('{"', '{"reference": "x", "'),
        ('{"', '{"user_name": "eve", "'),
    ],
)
def test_changed_line_restores_nothing(
    old: str,
    new: str,
    modern: CheckedClient,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = lost_line(settings, modern, caplog, "INSERT")
    changed = line.replace(old, new, 1)
    assert changed != line
    assert restore(changed, monkeypatch).startswith("0 records restored; 1 ")
    assert not ToolCallRecord.objects.exists()


def test_lines_of_an_earlier_secret_key_are_restored(
    modern: CheckedClient,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = lost_line(settings, modern, caplog, "INSERT")
    earlier, settings.SECRET_KEY = settings.SECRET_KEY, "another"
    assert restore(line, monkeypatch).startswith("0 records restored; 1 ")
    settings.SECRET_KEY_FALLBACKS = [earlier]
    assert restore(line, monkeypatch).startswith("1 records restored; 0 ")
    assert record().tool == "look"


def test_lines_from_before_kinds_are_restored(
    modern: CheckedClient,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = lost_line(settings, modern, caplog, "INSERT")
    row = json.loads(line[line.index("{") :])
    del row["kind"], row["signature"]
    assert restore(signed(row), monkeypatch).startswith("1 records restored; 0 ")
    assert (record().tool, record().kind) == ("look", "tool")


@pytest.mark.parametrize("number", [1, 2, 3, 50])
def test_refusals_lost_during_writing_keep_their_number(
    number: int, modern: CheckedClient, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    serve(settings, look)
    with pytest.raises(MCPError):
        modern.call_tool("nothing")
    ((key, repeats),) = refusals._known.items()
    for _ in range(number):
        refusals.repeated(key, repeats.first)

    def end(run: Callable[..., Any], sql: str, *args: Any) -> Any:
        if sql.startswith("UPDATE"):
            # As a process does that ends during the write.
            rows._lose([repeats])
        return run(sql, *args)

    with connection.execute_wrapper(end):
        rows.write_later(repeats)
    assert record().times == 1 + number
    told = [json.loads(line[line.index("{") :])["times"] for line in lines(caplog)]
    assert told == [1 + number]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "The database is away",
        '{"tool": 1}',
        '{"tool": "look"}',
        '{"tool": "look", "started_at": "soon", "remote_address": ""}',
        '{"tool": "look", "started_at": "2026-07-28 12:00:00Z", "remote_address": "", "more": 1}',
        '{"id": 1, "tool": "look", "outcome": "succeeded"',
        '{"tool": ' * 100_000,
    ],
)
def test_line_without_a_record_is_left_out(
    line: str, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if line.endswith("}"):
        line = signed(json.loads(line))
    assert restore(f"{line}\n", monkeypatch).startswith(
        "0 records restored; 1 lines without a record "
    )
    assert not ToolCallRecord.objects.exists()


def test_record_that_cannot_be_restored_is_named(
    modern: CheckedClient, settings: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "log").write_text(f"\n{lost_line(settings, modern, caplog, 'INSERT')}")
    errors = io.StringIO()
    with (
        connection.execute_wrapper(refuse("INSERT", TABLE)),
        pytest.raises(CommandError, match="1 records could not be written"),
    ):
        call_command("mcp_audit", "restore", str(tmp_path / "log"), stderr=errors)
    assert errors.getvalue() == "Line 2: no space is left\n"
    with pytest.raises(CommandError, match="The log cannot be read: .*No such file"):
        call_command("mcp_audit", "restore", str(tmp_path / "none"))


@pytest.mark.django_db(transaction=True)
def test_commit_with_a_lost_answer_is_recorded_as_made(
    modern: CheckedClient, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = BaseDatabaseWrapper._commit

    def commit_and_fail(wrapper: BaseDatabaseWrapper) -> None:
        commit(wrapper)
        raise OperationalError("server closed the connection unexpectedly")

    def write_and_lose() -> None:
        """Write a group, whose commit is not answered."""
        write("done")
        monkeypatch.setattr(BaseDatabaseWrapper, "_commit", commit_and_fail)

    serve(settings, write_and_lose)
    result = modern.call_tool("write_and_lose")
    monkeypatch.undo()
    assert result["isError"] is True
    assert record().outcome == "succeeded"


@pytest.mark.skipif(not POSTGRESQL, reason="SQLite has no sessions to end")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("read_only", [False, True])
def test_record_is_written_once_if_its_session_then_dies(
    read_only: bool, modern: CheckedClient, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"WRITE": "now"}}
    serve(settings, look, read_only=read_only)
    died: list[str] = []

    def execute(run: Callable[..., Any], sql: str, *args: Any) -> Any:
        found = run(sql, *args)
        if sql.startswith("INSERT") and TABLE in sql and not died:
            died.append(sql)
            connection.connection.close()
            raise OperationalError("server closed the connection unexpectedly")
        return found

    with connection.execute_wrapper(execute):
        assert modern.call_tool("look")["isError"] is False
    assert (len(died), record().outcome) == (1, "succeeded")


@pytest.mark.skipif(not POSTGRESQL, reason="SQLite's says so in other words")
@pytest.mark.django_db(transaction=True)
def test_record_waits_for_a_read_only_database(
    modern: CheckedClient, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"WRITE": "now"}}
    serve(settings, look, read_only=True)

    def only_read(is_so: bool) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = %s", ["on" if is_so else "off"])

    only_read(True)
    assert modern.call_tool("look")["isError"] is False
    only_read(False)
    assert (record().outcome, lines(caplog)) == ("succeeded", [])


MAKING = """
import django
django.setup()
from django.db import connection
from mcp_bridge.models import ToolCallRecord

with connection.schema_editor() as editor:
    editor.create_model(ToolCallRecord)
"""
# Given the seconds for which a statement waits for the lock.
ENDING = """
import logging, sys
import django
django.setup()
from django.db import connections
from mcp_bridge.records import writer
from tests.support.recording import call_in_script

writer.PATIENCE = 1.0
logging.basicConfig(level=logging.ERROR, format="%(name)s: %(message)s")
connections.settings["default"]["OPTIONS"]["timeout"] = float(sys.argv[1])
call_in_script(5)
"""


@pytest.mark.parametrize("seconds", ["0.2", "60"], ids=["it waits", "it is being written"])
@pytest.mark.alone
def test_records_behind_a_lock_are_logged_at_exit(
    seconds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "locked.sqlite3"
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.processes.served_settings")
    monkeypatch.setenv("SERVED_DATABASE", str(place))
    assert try_python("-c", MAKING, cwd=ROOT)[0] == 0
    # Held here: at exit the process releases its own locks, for which the thread may wait.
    with closing(sqlite3.connect(place, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        status, _, errors = try_python("-c", ENDING, seconds, cwd=ROOT)
        assert status == 0
        assert other.execute(f"SELECT count(*) FROM {TABLE}").fetchone() == (0,)
    found = [each for each in errors.splitlines() if each.startswith("mcp_bridge.records.lost: ")]
    assert [json.loads(each.partition(": ")[2])["tool"] for each in found] == ["look"] * 5
