from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext
from types import FunctionType
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction
from pydantic import BaseModel

from mcp_bridge import Context, ToolError
from mcp_bridge.elicitation import elicit
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.asgi import posted
from tests.support.values import dumps


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


def written() -> bool:
    return Group.objects.filter(name="written").exists()


@pytest.mark.parametrize("then", ENDS)
def test_error_rolls_back_a_tools_writes(then: str, modern: CheckedClient, settings: Any) -> None:
    serve(settings, write)
    assert modern.call_tool("write", {"then": then})["isError"] is True
    assert not written()


@pytest.mark.parametrize("function", [write, awrite])
def test_result_commits_a_tools_writes(function: Any, modern: CheckedClient, settings: Any) -> None:
    serve(settings, function)
    assert modern.call_tool(function.__name__, {"then": "done"})["isError"] is False
    assert written()


@pytest.mark.off_tasks
def test_error_rolls_back_a_coroutines_writes(modern: CheckedClient, settings: Any) -> None:
    serve(settings, awrite)
    assert modern.call_tool("awrite", {"then": "refuse"})["isError"] is True
    assert not written()


def test_other_writes_of_the_request_are_kept(user: Any, settings: Any) -> None:
    serve(settings, write)
    client = CheckedClient(user=user, revision="2025-03-26")
    calls = [
        client.message("tools/call", name="write", arguments={"then": then})
        for then in ("refuse", "done", "duplicate")
    ]
    answers = client.send(dumps(calls)).json()
    assert [answer["result"]["isError"] for answer in answers] == [True, False, True]
    assert Group.objects.filter(name="written").count() == 1


def test_failed_write_leaves_the_database_usable(modern: CheckedClient, settings: Any) -> None:
    serve(settings, write)
    with transaction.atomic():
        Group.objects.create(name="before")
        modern.call_tool("write", {"then": "duplicate"})
        assert list(Group.objects.values_list("name", flat=True)) == ["before"]


@pytest.mark.django_db(transaction=True)
def test_read_only_writes_are_rolled_back_only_in_transactions(
    modern: CheckedClient, settings: Any
) -> None:
    serve(settings, write, read_only=True)
    with transaction.atomic():
        Group.objects.create(name="before")
        modern.call_tool("write", {"then": "refuse"})
        assert list(Group.objects.values_list("name", flat=True)) == ["before"]
    modern.call_tool("write", {"then": "refuse"})
    assert set(Group.objects.values_list("name", flat=True)) == {"before", "written"}


@pytest.mark.off_tasks
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("atomic", [False, True], ids=["", "ATOMIC_REQUESTS"])
def test_call_is_atomic(
    atomic: bool, asynchronous: bool, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", atomic)
    serve(settings, write, awrite, asynchronous=asynchronous)
    client = CheckedClient(user=get_user_model().objects.create_user("ada"))
    for name, then in [*(("write", each) for each in ENDS), ("awrite", "refuse")]:
        assert client.call_tool(name, {"then": then})["isError"] is True
        assert not written(), (name, then)
    for name in ("write", "awrite"):
        assert client.call_tool(name, {"then": "done"})["isError"] is False
        assert written()
        Group.objects.all().delete()


def is_atomic() -> bool:
    """Return whether a transaction is open."""
    return connection.in_atomic_block


async def ais_atomic() -> bool:
    """Return whether a transaction is open in the thread of a coroutine's queries."""
    return await sync_to_async(is_atomic)()


@pytest.mark.off_tasks
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_read_only_and_opted_out_tools_have_no_transaction(
    asynchronous: bool, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = CheckedClient(user=get_user_model().objects.create_user("ada"))
    unwanted = transaction.non_atomic_requests

    def has(function: Any, **marks: Any) -> bool:
        serve(settings, function, asynchronous=asynchronous, **marks)
        result = client.call_tool(function.__name__)["structuredContent"]
        assert not connection.in_atomic_block
        return bool(result["result"])

    for atomic in (False, True):
        monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", atomic)
        for function in (is_atomic, ais_atomic):
            assert has(function)
            assert has(function, read_only=True) is atomic
            assert has(function, confirm=False, destructive=True)
            assert not has(unwanted(copy_of(function)))


@pytest.mark.off_tasks
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_rolled_back_call_is_never_a_success(asynchronous: bool, settings: Any) -> None:
    def retry(apart: bool) -> str:
        """Write a group, and ignore that a second one is refused."""
        Group.objects.create(name="written")
        try:
            with transaction.atomic() if apart else nullcontext():
                Group.objects.create(name="written")
        except IntegrityError:
            pass
        return "done"

    async def aretry(apart: bool) -> str:
        """Do the same in a coroutine."""
        return await sync_to_async(retry)(apart)

    serve(settings, retry, aretry, asynchronous=asynchronous)
    client = CheckedClient(user=get_user_model().objects.create_user("ada"))
    for name in ("retry", "aretry"):
        assert client.call_tool(name, {"apart": False})["isError"] is True
        assert not written()
        assert client.call_tool(name, {"apart": True})["isError"] is False
        assert written()
        Group.objects.all().delete()


class Name(BaseModel):
    name: str


@pytest.mark.off_tasks
@pytest.mark.requirement("mrtr.no-retry")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("read_only", [False, True], ids=["", "read_only"])
def test_question_rolls_back_earlier_writes(
    read_only: bool, asynchronous: bool, settings: Any
) -> None:
    def book(context: Context) -> str:
        """Write a group, and ask."""
        Group.objects.create(name="written")
        return elicit(context, "For whom?", Name).name

    async def abook(context: Context) -> str:
        """Do the same in a coroutine."""
        await Group.objects.acreate(name="written")
        return elicit(context, "For whom?", Name).name

    serve(settings, book, abook, asynchronous=asynchronous, read_only=read_only)
    user = get_user_model().objects.create_user("ada")
    client = CheckedClient(user=user, capabilities={"elicitation": {}})
    for name in ("book", "abook"):
        asked = client.post("tools/call", name=name)
        (key,) = asked["inputRequests"]
        assert not written()
        answer = {key: {"action": "accept", "content": {"name": "Ada"}}}
        state = asked["requestState"]
        done = client.post("tools/call", name=name, inputResponses=answer, requestState=state)
        assert done["isError"] is False
        assert written()
        Group.objects.all().delete()


def copy_of(function: Any) -> Any:
    """Return the function as another one, to be marked."""
    code, name = function.__code__, function.__name__
    copied = FunctionType(code, function.__globals__, name)
    copied.__annotations__ = {"return": bool}
    return copied


def test_tool_can_open_its_own_transaction(modern: CheckedClient, settings: Any) -> None:
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


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite lets one write at a time")
@pytest.mark.django_db(transaction=True)
def test_concurrent_coroutines_have_separate_transactions(settings: Any) -> None:
    met = asyncio.Barrier(4)

    async def pair(name: str) -> str:
        """Write a group, wait until all have, and fail if the name is odd."""
        await Group.objects.acreate(name=name)
        await met.wait()
        if int(name) % 2:
            raise ToolError("odd")
        await Group.objects.acreate(name=f"{name} again")
        return name

    serve(settings, pair, public=True, asynchronous=True)

    async def main() -> list[bytes]:
        return await asyncio.gather(*(posted("pair", name=str(each)) for each in range(4)))

    bodies = asyncio.run(main())
    assert [b'"isError":true' in each for each in bodies] == [False, True, False, True]
    assert set(Group.objects.values_list("name", flat=True)) == {"0", "0 again", "2", "2 again"}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_explicit_rollback_is_not_an_error(
    asynchronous: bool, modern: CheckedClient, settings: Any
) -> None:
    def rehearse() -> str:
        """Write a group, and undo it."""
        Group.objects.create(name="written")
        transaction.set_rollback(True)
        return "would work"

    serve(settings, rehearse, asynchronous=asynchronous)
    result = modern.call_tool("rehearse")
    assert (result["isError"], result["content"][0]["text"]) == (False, "would work")
    assert not written()
