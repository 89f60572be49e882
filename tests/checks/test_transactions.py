"""Warnings about SQLite databases in which tools fail if they read and then write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core import checks
from django.db import ConnectionHandler

from mcp_bridge.checks import deployment
from mcp_bridge.conf import DOCUMENTATION
from mcp_bridge.testing.serving import serve
from tests.checks.test_checks import found

SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}


class ToAnother:
    """A router that writes users to another database."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "another" if model._meta.app_label == "auth" else None


def write() -> str:
    """Write something."""
    return "written"


def at_deployment() -> list[checks.CheckMessage]:
    """Return the messages of ``manage.py check --deploy`` about transactions."""
    messages = checks.run_checks(tags=["mcp_bridge"], include_deployment_checks=True)
    return [each for each in messages if each.id == "mcp_bridge.W013"]


def warned(monkeypatch: pytest.MonkeyPatch, **databases: dict[str, Any]) -> list[str]:
    """Return the databases that the checks warn about on a site with these."""
    handler = ConnectionHandler({"default": {}, **databases})
    monkeypatch.setattr(deployment, "connections", handler)
    assert found() == []
    messages = at_deployment()
    assert all((each.id, each.level) == ("mcp_bridge.W013", checks.WARNING) for each in messages)
    return [each.msg.partition("'")[2].partition("'")[0] for each in messages]


@pytest.mark.parametrize(
    ("database", "is_warned_of"),
    [
        (SQLITE, True),
        ({**SQLITE, "NAME": Path("db.sqlite3")}, True),
        ({**SQLITE, "OPTIONS": {"timeout": 5}}, True),
        ({**SQLITE, "OPTIONS": {"transaction_mode": None}}, True),
        ({**SQLITE, "OPTIONS": {"transaction_mode": "DEFERRED"}}, True),
        ({**SQLITE, "OPTIONS": {"transaction_mode": "IMMEDIATE"}}, False),
        ({**SQLITE, "OPTIONS": {"transaction_mode": "immediate"}}, False),
        ({**SQLITE, "OPTIONS": {"transaction_mode": "EXCLUSIVE"}}, False),
        ({**SQLITE, "NAME": ":memory:"}, False),
        ({**SQLITE, "NAME": "file:x?mode=memory&cache=shared"}, False),
        ({}, False),
    ],
)
def test_w013_sqlite_file_without_immediate_transactions(
    database: dict[str, Any],
    is_warned_of: bool,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve(settings, write)
    assert warned(monkeypatch, default=database) == ["default"] * is_warned_of


def test_w013_names_the_setting_to_change(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(settings, write)
    monkeypatch.setattr(deployment, "connections", ConnectionHandler({"default": SQLITE}))
    (message,) = at_deployment()
    assert '"database is locked"' in message.msg
    hint = """Set DATABASES['default']["OPTIONS"]["transaction_mode"] = "IMMEDIATE"; see """
    assert str(message.hint) == f"{hint}{DOCUMENTATION}start/installation/#sqlite."


def test_w013_names_each_written_database(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(settings, write)
    databases = {"default": SQLITE, "another": SQLITE, "archive": SQLITE}
    assert warned(monkeypatch, **databases) == ["default"]
    settings.DATABASE_ROUTERS = [f"{__name__}.ToAnother"]
    assert warned(monkeypatch, **databases) == ["another", "default"]


def test_w013_is_skipped_for_read_only_sites(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(settings, write, read_only=True)
    assert warned(monkeypatch, default=SQLITE) == []


FAST = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"


@pytest.mark.parametrize(
    ("database", "is_warned_of"),
    [
        (SQLITE, True),
        ({**SQLITE, "OPTIONS": {"transaction_mode": "IMMEDIATE"}}, True),
        ({**SQLITE, "OPTIONS": {"init_command": FAST[:24]}}, True),
        ({**SQLITE, "OPTIONS": {"init_command": FAST}}, False),
        ({**SQLITE, "OPTIONS": {"init_command": FAST.replace("=", " = ")}}, False),
        ({**SQLITE, "OPTIONS": {"init_command": FAST.lower()}}, False),
        ({**SQLITE, "NAME": ":memory:"}, False),
        ({}, False),
    ],
)
def test_w015_sqlite_file_that_waits_for_the_disk(
    database: dict[str, Any],
    is_warned_of: bool,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve(settings, write, read_only=True)
    monkeypatch.setattr(deployment, "connections", ConnectionHandler({"default": database}))
    messages = deployment.check_deployment()
    assert [each.id for each in messages] == ["mcp_bridge.W015"] * is_warned_of
    assert all("init_command" in str(each.hint) for each in messages)


def test_w015_applies_to_deployments_with_records(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "connections", ConnectionHandler({"default": SQLITE}))
    found_by = {
        deploy: [
            each.id
            for each in checks.run_checks(tags=["mcp_bridge"], include_deployment_checks=deploy)
            if each.id == "mcp_bridge.W015"
        ]
        for deploy in (False, True)
    }
    assert found_by == {False: [], True: ["mcp_bridge.W015"]}
    settings.MCP_BRIDGE = {"AUDIT": None}
    assert "mcp_bridge.W015" not in [each.id for each in deployment.check_deployment()]
