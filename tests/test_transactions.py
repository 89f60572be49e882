from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connection, transaction

from mcp_bridge import ToolError
from mcp_bridge.protocol.content import CallToolResult
from tests.conftest import CheckedClient, dumps
from tests.serving import serve


def write(then: str) -> Any:
    """Write a group, and end in some way."""
    Group.objects.create(name="written")
    match then:
        case "refuse":
            raise ToolError("Written, then refused.")
        case "break":
            raise RuntimeError("written, then broken")
        case "exit":
            raise SystemExit(1)
        case "error":
            return CallToolResult.error("Written, then told.")
        case "duplicate":
            return Group.objects.create(name="written").pk
        case "rubbish":
            return float("nan")
        case "too much":
            return "x" * 5000
    return then


async def awrite(then: str) -> Any:
    """Write a group, and end in some way, in a coroutine."""
    await Group.objects.acreate(name="written")
    if then == "refuse":
        raise ToolError("Written, then refused.")
    return then


ENDS = ["refuse", "break", "exit", "error", "duplicate", "rubbish", "too much"]


@pytest.fixture(autouse=True)
def small_results(settings: Any) -> None:
    settings.MCP_BRIDGE = {"MAX_RESULT_BYTES": 4000}


@pytest.fixture
def atomic_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)


def written() -> bool:
    return Group.objects.filter(name="written").exists()


@pytest.mark.parametrize("then", ENDS)
def test_what_a_tool_wrote_goes_with_its_error(
    then: str, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, write)
    assert modern.call_tool("write", {"then": then})["isError"] is True
    assert not written()


@pytest.mark.parametrize("function", [write, awrite])
def test_what_a_tool_wrote_stays_with_its_result(
    function: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, function)
    assert modern.call_tool(function.__name__, {"then": "done"})["isError"] is False
    assert written()


def test_what_a_coroutine_wrote_goes_with_its_error(modern: CheckedClient, settings: Any) -> None:
    serve(settings, awrite)
    assert modern.call_tool("awrite", {"then": "refuse"})["isError"] is True
    assert not written()


def test_the_rest_of_the_request_stays(user: Any, settings: Any) -> None:
    serve(settings, write)
    client = CheckedClient(user=user, revision="2025-03-26")
    calls = [
        client.message("tools/call", name="write", arguments={"then": then})
        for then in ("refuse", "done", "duplicate")
    ]
    answers = client.send(dumps(calls)).json()
    assert [answer["result"]["isError"] for answer in answers] == [True, False, True]
    assert Group.objects.filter(name="written").count() == 1


def test_a_failed_write_leaves_the_database_usable(modern: CheckedClient, settings: Any) -> None:
    serve(settings, write)
    with transaction.atomic():
        Group.objects.create(name="before")
        modern.call_tool("write", {"then": "duplicate"})
        assert list(Group.objects.values_list("name", flat=True)) == ["before"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("then", "stays"), [("refuse", False), ("done", True)])
@pytest.mark.usefixtures("atomic_requests")
def test_atomic_requests_cover_the_call_under_both_views(
    then: str, stays: bool, asynchronous: bool, settings: Any
) -> None:
    serve(settings, write, asynchronous=asynchronous)
    client = CheckedClient(user=get_user_model().objects.create_user("ada"))
    assert client.call_tool("write", {"then": then})["isError"] is not stays
    assert written() is stays


@pytest.mark.django_db(transaction=True)
def test_without_a_transaction_a_tool_has_none(settings: Any) -> None:
    def is_atomic() -> bool:
        return connection.in_atomic_block

    serve(settings, is_atomic)
    client = CheckedClient(user=get_user_model().objects.create_user("ada"))
    assert client.call_tool("is_atomic")["structuredContent"] == {"result": False}


def test_a_tool_may_hold_a_transaction_of_its_own(modern: CheckedClient, settings: Any) -> None:
    def transfer(fail: bool) -> list[str]:
        Group.objects.create(name="outer")
        try:
            with transaction.atomic():
                Group.objects.create(name="inner")
                if fail:
                    raise ValueError("no")
        except ValueError:
            pass
        return sorted(Group.objects.values_list("name", flat=True))

    serve(settings, transfer)
    result = modern.call_tool("transfer", {"fail": True})
    assert json.loads(result["content"][0]["text"]) == ["outer"]
