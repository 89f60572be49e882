"""The system checks of tasks."""

from __future__ import annotations

import sys
from typing import Any

import django
import pytest
from django.core import checks
from django.db import connections

from mcp_bridge.testing.serving import serve
from tests.tasks.world import without_app

PACKAGE = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"
IMMEDIATE = f"{PACKAGE}.backends.immediate.ImmediateBackend"
DUMMY = f"{PACKAGE}.backends.dummy.DummyBackend"
DATABASE = "django_tasks_db.DatabaseBackend"
# The tests' tools are public at /rpc.
OTHERS = ("mcp_bridge.W033", "mcp_bridge.W035")


def add(a: int) -> int:
    """Add one."""
    return a + 1


class BrokenBackend:
    """A backend that cannot be made."""

    def __init__(self, alias: str, params: Any) -> None:
        raise ValueError("no broker")


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    serve(settings, add, task=True)


def backend(settings: Any, path: str, **options: Any) -> None:
    """Set the backend of the site."""
    settings.TASKS = {"default": {"BACKEND": path, **options}}


def found() -> dict[str, checks.CheckMessage]:
    """Return the messages of the checks by id."""
    messages = checks.run_checks(tags=["mcp_bridge"])
    assert all(each.hint and each.msg for each in messages)
    return {str(each.id): each for each in messages if each.id not in OTHERS}


def test_site_with_a_worker_has_no_messages(settings: Any) -> None:
    assert found() == {}
    for queues in ([], ["mcp"], ["a", "mcp"]):
        backend(settings, DATABASE, QUEUES=queues)
        assert found() == {}


def test_e110_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    message = found()["mcp_bridge.E110"]
    assert message.level == checks.ERROR
    assert PACKAGE in message.msg
    assert "pip install 'django-mcp-bridge[tasks]'" in str(message.hint)


@pytest.mark.parametrize(
    ("alias", "path", "why"),
    [
        ("other", DATABASE, "other"),
        ("default", "nowhere.Backend", "nowhere"),
        ("default", f"{__name__}.BrokenBackend", "no broker"),
    ],
)
def test_e111_unusable_backend(settings: Any, alias: str, path: str, why: str) -> None:
    settings.MCP_BRIDGE = {"TASK_BACKEND": alias}
    backend(settings, path, QUEUES=["mcp"])
    message = found()["mcp_bridge.E111"]
    assert message.level == checks.ERROR
    assert f"MCP_BRIDGE['TASK_BACKEND'] is {alias!r}" in message.msg
    assert why in message.msg


def test_e112_backend_without_the_queue(settings: Any) -> None:
    for options in ({}, {"QUEUES": ["default", "mail"]}):
        backend(settings, DATABASE, **options)
        message = found()["mcp_bridge.E112"]
        assert message.level == checks.ERROR
        assert "'default' of TASKS does not have the queue 'mcp'" in message.msg
        assert "TASKS['default']['QUEUES']" in str(message.hint)


def test_w110_backend_without_workers(settings: Any) -> None:
    backend(settings, IMMEDIATE, QUEUES=["mcp"])
    assert [*found()] == ["mcp_bridge.W110"]


def test_w111_backend_that_never_runs(settings: Any) -> None:
    backend(settings, DUMMY, QUEUES=["mcp"])
    assert [*found()] == ["mcp_bridge.W111"]


def test_w112_atomic_requests(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    message = found()["mcp_bridge.W112"]
    assert message.level == checks.WARNING
    assert "on for 'default'" in message.msg
    assert message.msg.endswith(": add.")
    assert "transaction.atomic()" in str(message.hint)
    serve(settings, add)
    assert found() == {}


def test_e029_tool_without_the_app(settings: Any) -> None:
    with without_app():
        message = found()["mcp_bridge.E029"]
        assert message.level == checks.ERROR
        assert ": add." in message.msg
        serve(settings, add)
        assert "mcp_bridge.E029" not in found()


def test_invalid_setting_is_the_only_message(settings: Any) -> None:
    settings.MCP_BRIDGE = {"TASK_BACKEND": 5}
    assert [*found()] == ["mcp_bridge.E002"]
