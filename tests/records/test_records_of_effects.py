"""A tool's writes and the record of it are committed together, or neither is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import DatabaseError, connection, transaction

from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.recording import awrite, record, write

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def client(asynchronous: bool) -> CheckedClient:
    return CheckedClient(user=get_user_model().objects.create_user("ada"))


class Statements:
    """The statements on the table of records: in a transaction, or each alone."""

    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.seen: list[tuple[str, bool]] = []

    def __call__(self, run: Callable[..., Any], sql: str, *args: Any) -> Any:
        verb = sql.split()[0]
        if verb in ("INSERT", "UPDATE") and "toolcallrecord" in sql:
            self.seen.append((verb, connection.in_atomic_block))
            if verb == self.failing:
                raise DatabaseError("no space is left")
        return run(sql, *args)


@pytest.mark.parametrize("function", [write, awrite])
def test_success_is_recorded_in_the_transaction_of_its_effect(
    function: Any, asynchronous: bool, client: CheckedClient, settings: Any
) -> None:
    serve(settings, function, asynchronous=asynchronous)
    statements = Statements()
    with connection.execute_wrapper(statements):
        assert client.call_tool(function.__name__, {"then": "done"})["isError"] is False
    assert statements.seen == [("INSERT", False), ("UPDATE", True)]
    found = record()
    assert (found.outcome, found.error_code, found.reference) == ("succeeded", "", "")
    assert (found.result_bytes or 0) > 0
    assert (found.duration_ms or 0) > 0
    assert Group.objects.get().name == "written"


@pytest.mark.parametrize("then", ["refuse", "break"])
def test_rolled_back_call_is_recorded_afterwards(
    then: str, asynchronous: bool, client: CheckedClient, settings: Any
) -> None:
    serve(settings, write, asynchronous=asynchronous)
    statements = Statements()
    with connection.execute_wrapper(statements):
        assert client.call_tool("write", {"then": then})["isError"] is True
    assert statements.seen == [("INSERT", False), ("UPDATE", False)]
    assert record().outcome == "failed"
    assert not Group.objects.exists()


def break_a_constraint() -> str:
    """Write a row whose constraint is checked by the commit."""
    Group.objects.create(name="written")
    Permission.objects.create(codename="x", content_type_id=10**6)
    return "done"


async def abreak_a_constraint() -> str:
    """Write a row whose constraint is checked by the commit."""
    await Permission.objects.acreate(codename="x", content_type_id=10**6)
    return "done"


@transaction.non_atomic_requests
def write_each_alone(then: str) -> str:
    """Write a group without a transaction."""
    return write(then)


@pytest.mark.parametrize("function", [break_a_constraint, abreak_a_constraint])
def test_failed_commit_is_recorded_as_a_failure(
    function: Any, asynchronous: bool, client: CheckedClient, settings: Any
) -> None:
    serve(settings, function, asynchronous=asynchronous)
    statements = Statements()
    with connection.execute_wrapper(statements):
        assert client.call_tool(function.__name__)["isError"] is True
    assert statements.seen == [("INSERT", False), ("UPDATE", True), ("UPDATE", False)]
    found = record()
    assert (found.outcome, found.error_code) == ("failed", "internal_error")
    assert found.reference
    assert not Group.objects.exists()


def test_record_that_cannot_be_completed_undoes_nothing(
    asynchronous: bool, client: CheckedClient, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    serve(settings, write, asynchronous=asynchronous)
    with connection.execute_wrapper(Statements(failing="UPDATE")):
        assert client.call_tool("write", {"then": "done"})["isError"] is False
    assert record().outcome == "started"
    assert Group.objects.exists()
    assert "is lost" in caplog.text


def test_tool_that_undoes_its_own_work_has_succeeded(
    asynchronous: bool, client: CheckedClient, settings: Any
) -> None:
    def undo() -> str:
        """Write a group, and roll it back."""
        Group.objects.create(name="written")
        transaction.set_rollback(True)
        return "undone"

    serve(settings, undo, asynchronous=asynchronous)
    statements = Statements()
    with connection.execute_wrapper(statements):
        assert client.call_tool("undo")["isError"] is False
    assert statements.seen == [("INSERT", False), ("UPDATE", False)]
    assert record().outcome == "succeeded"
    assert not Group.objects.exists()


def test_tool_without_a_transaction_is_recorded_at_its_end(
    asynchronous: bool, client: CheckedClient, settings: Any
) -> None:
    serve(settings, write_each_alone, asynchronous=asynchronous)
    statements = Statements()
    with connection.execute_wrapper(statements):
        assert client.call_tool("write_each_alone", {"then": "done"})["isError"] is False
    assert statements.seen == [("INSERT", False), ("UPDATE", False)]
    assert record().outcome == "succeeded"
