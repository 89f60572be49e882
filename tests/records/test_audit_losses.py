"""A record that the database does not take: what runs all the same, and what does not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connection, connections

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.testing import MCPClient, MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.recording import record

POSTGRESQL = connection.vendor == "postgresql"
RAN: list[str] = []


class Apart:
    """Records are written to a database of their own."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "records" if model is ToolCallRecord else None


def act(then: str = "done") -> str:
    """Note that it ran."""
    RAN.append(then)
    return then


@pytest.fixture
def losses(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """Counts the records that the log calls lost, since it was last asked."""

    def count() -> int:
        errors = [each for each in caplog.records if each.levelno == logging.ERROR]
        lost = [each for each in errors if each.name == "mcp_bridge.records"]
        assert all("is lost" in each.getMessage() for each in lost)
        # Each is followed by the record itself.
        assert [each.name for each in errors[1::2]] == ["mcp_bridge.records.lost"] * len(lost)
        caplog.clear()
        return len(lost)

    return count


def away(place: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """The database of the records cannot be reached."""
    config = {**connections.settings["default"], "NAME": place / "no" / "such.sqlite3"}
    config["ENGINE"] = "django.db.backends.sqlite3"
    monkeypatch.setitem(connections.settings, "records", {**config, "OPTIONS": {}})
    settings.DATABASE_ROUTERS = [f"{__name__}.Apart"]


def gone() -> None:
    """There is no table for them."""
    with connection.cursor() as cursor:
        cursor.execute('ALTER TABLE "mcp_bridge_toolcallrecord" RENAME TO "elsewhere"')


@pytest.mark.parametrize("how", ["away", "gone"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_only_what_acts_and_must_be_recorded_does_not_run(
    asynchronous: bool,
    how: str,
    modern: CheckedClient,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    losses: Callable[[], int],
) -> None:
    away(tmp_path, monkeypatch, settings) if how == "away" else gone()
    for mark, acts in [({"read_only": True}, False), ({}, True), ({"destructive": True}, True)]:
        for required in (False, True):
            RAN.clear()
            settings.MCP_BRIDGE = {"AUDIT": {"REQUIRED": required}}
            serve(settings, act, asynchronous=asynchronous, **mark)
            result = modern.call_tool("act")
            stopped = required and acts
            assert (result["isError"], RAN) == (stopped, [] if stopped else ["done"])
            # The call or, where it is stopped, its refusal.
            assert losses() == 1
            if stopped:
                assert "act was not run: this site requires a record" in text_of(result)
            # A refusal is answered as ever.
            with pytest.raises(MCPError, match="Unknown tool: nothing"):
                modern.call_tool("nothing")
            assert losses() == 1


def end_session() -> None:
    """Have the database end the session of this thread, which hears nothing of it."""
    process = connection.connection.info.backend_pid
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [process])
    other.close()


@pytest.mark.skipif(not POSTGRESQL, reason="SQLite has no sessions to end")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_session_that_ends_while_a_tool_runs_loses_no_record(
    read_only: bool, settings: Any, losses: Callable[[], int]
) -> None:
    def wait() -> str:
        """Wait while the database server is restarted."""
        end_session()
        return "waited"

    serve(settings, wait, read_only=read_only)
    client = MCPClient(user=get_user_model().objects.create_user("ada"))
    assert client.call_tool("wait")["isError"] is False
    # The record may have been written on another one.
    connection.close()
    assert (record().outcome, losses()) == ("succeeded", 0)


@pytest.mark.skipif(not POSTGRESQL, reason="SQLite's is in memory, and never another one")
@pytest.mark.django_db(transaction=True)
def test_a_record_is_written_on_the_connection_that_is_open(settings: Any) -> None:
    used = []

    def use() -> None:
        """Use the database."""
        Group.objects.exists()
        used.append(connection.connection)

    serve(settings, use)
    client = MCPClient(user=get_user_model().objects.create_user("ada"))
    assert client.call_tool("use")["isError"] is False
    assert [connection.connection] == used
    assert record().outcome == "succeeded"


def test_a_database_of_another_make_gives_its_keys_in_its_own_way(
    modern: CheckedClient, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(settings, act)
    monkeypatch.setattr(connections["default"], "vendor", "another")
    assert modern.call_tool("act")["isError"] is False
    assert (record().outcome, record().user_name) == ("succeeded", "ada")
