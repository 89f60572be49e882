"""Disconnects and unusual endings of tools under ASGI are reported correctly."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Group
from django.db import OperationalError, connection, connections, transaction
from django.db.backends.signals import connection_created

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support import lane
from tests.support.asgi import Departing, posted
from tests.support.recording import record

pytestmark = pytest.mark.django_db(transaction=True)
BEGUN, GO_ON = threading.Event(), threading.Event()


@pytest.fixture(autouse=True, params=[False, True], ids=["django", "direct lane"])
def application(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both applications, which treat disconnects in the same way."""
    if request.param:
        monkeypatch.setattr(lane, "IS_ON", True)


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """
    Reset the events before a test, and close the connections of request threads after it.

    Django never closes an in-memory SQLite database, because that would lose it.
    """
    BEGUN.clear()
    GO_ON.clear()
    made: list[Any] = []

    def note(connection: Any, **known: Any) -> None:
        made.append(connection)

    connection_created.connect(note)
    yield
    connection_created.disconnect(note)
    for each in made:
        if each is not connections[each.alias] and each.connection is not None:
            each.connection.close()


def outcomes() -> list[str]:
    return list(ToolCallRecord.objects.values_list("outcome", flat=True))


def slow() -> str:
    """Write a group, slowly."""
    BEGUN.set()
    Group.objects.create(name="written")
    GO_ON.wait(10)
    return "written"


async def aslow() -> str:
    """Write a group in a thread of a coroutine, slowly."""
    return await sync_to_async(slow)()


class SlowPolicy:
    """A slow policy."""

    def allows(self, tool: Any, context: Any) -> bool:
        BEGUN.set()
        return GO_ON.wait(10)

    def filter(self, tools: Any, context: Any) -> Any:
        return iter(tools)


def leave(tool: str, times: int) -> list[Any]:
    """Call a tool, and go before its answer; returns what was sent all the same."""

    async def main() -> list[Any]:
        call = Departing(tool)
        await asyncio.to_thread(BEGUN.wait, 10)
        await call.go(times)
        GO_ON.set()
        await call.end()
        return call.sent

    return asyncio.run(main())


@pytest.mark.requirement("http.cancel", "http.cancelled-silence")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("function", [slow, aslow])
def test_outcome_is_recorded_whenever_the_client_disconnects(
    function: Any, times: int, settings: Any
) -> None:
    serve(settings, function, public=True, asynchronous=True)
    assert leave(function.__name__, times) == []
    came = (outcomes(), Group.objects.count())
    assert came == ((["succeeded"], 1) if function is slow else (["cancelled"], 0))
    # Nothing stays open that would block the next call.
    Group.objects.all().delete()
    assert b'"isError":false' in asyncio.run(posted(function.__name__))


def test_tool_does_not_run_after_an_early_disconnect(settings: Any) -> None:
    settings.MCP_BRIDGE = {"ACCESS_POLICY": f"{__name__}.SlowPolicy"}
    serve(settings, slow, public=True, asynchronous=True)
    assert leave("slow", 1) == []
    assert (outcomes(), Group.objects.count()) == (["cancelled"], 0)


@pytest.mark.requirement("http.cancel")
def test_inner_coroutine_is_cancelled_on_disconnect(settings: Any) -> None:
    ended: list[str] = []

    async def wait() -> None:
        BEGUN.set()
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    def waiting() -> str:
        """Wait in a coroutine."""
        async_to_sync(wait)()
        return "waited"

    serve(settings, waiting, public=True, read_only=True)
    leave("waiting", 1)
    assert ended == ["cancelled"]
    assert outcomes() != ["succeeded"]


class GoneError(BaseException):
    """An exception that ends more than a tool."""


@pytest.mark.parametrize("asynchronous", [False, True])
def test_no_transaction_is_left_open(asynchronous: bool, settings: Any) -> None:
    async def end() -> None:
        """Write a group, and end more than the call."""
        await Group.objects.acreate(name="written")
        raise BaseExceptionGroup("more than one", [GoneError()])

    serve(settings, end, public=True, asynchronous=asynchronous)
    assert CheckedClient().call_tool("end")["isError"]
    assert not connection.in_atomic_block
    assert not Group.objects.exists()


async def cancelled() -> None:
    task = asyncio.ensure_future(asyncio.sleep(10))
    await asyncio.sleep(0)
    task.cancel()
    await task


def cancels() -> None:
    """Run a coroutine that is cancelled."""
    Group.objects.create(name="written")
    asyncio.run(cancelled())


async def yields() -> Any:
    """Yield a number, and be cancelled."""
    yield 1
    await cancelled()


async def returns() -> Iterable[int]:
    """Return what is cancelled when it is read."""
    return yields()  # type: ignore[no-any-return]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("function", [cancels, yields, returns])
def test_tool_that_cancels_itself_has_failed(
    function: Any, asynchronous: bool, settings: Any
) -> None:
    serve(settings, function, public=True, asynchronous=asynchronous)
    assert b'"isError":true' in asyncio.run(posted(function.__name__))
    assert record().outcome == "failed"
    assert not Group.objects.exists()


class StoppingPolicy(SlowPolicy):
    """Raises StopIteration, which a future refuses."""

    def allows(self, tool: Any, context: Any) -> bool:
        return next(iter(()))


def test_policy_raising_stop_iteration_is_a_fault(settings: Any) -> None:
    settings.MCP_BRIDGE = {"ACCESS_POLICY": f"{__name__}.StoppingPolicy"}
    serve(settings, slow, public=True, asynchronous=True)
    assert b"-32603" in asyncio.run(posted("slow"))
    assert (record().outcome, record().error_code) == ("refused", "internal_error")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_lazy_result_of_a_coroutine_can_query(asynchronous: bool, settings: Any) -> None:
    async def groups() -> Iterable[str]:
        """Return the number of permissions of each group."""
        found = await sync_to_async(list)(Group.objects.order_by("name"))
        return (f"{each.name}: {each.permissions.count()}" for each in found)

    Group.objects.bulk_create([Group(name=name) for name in "abc"])
    serve(settings, groups, public=True, asynchronous=asynchronous)
    body = asyncio.run(posted("groups"))
    assert b'{"result":["a: 0","b: 0","c: 0"]}' in body


@pytest.mark.parametrize("asynchronous", [False, True])
def test_committed_call_succeeds_despite_failing_hooks(asynchronous: bool, settings: Any) -> None:
    def commit() -> str:
        """Write a group, with a hook that fails."""
        Group.objects.create(name="written")
        transaction.on_commit(fail)
        transaction.on_commit(lambda: ran.append("after"))
        return "done"

    async def acommit() -> str:
        """Do the same in a coroutine."""
        return await sync_to_async(commit)()

    def fail() -> None:
        raise OperationalError("the queue's table is locked")

    ran: list[str] = []
    serve(settings, commit, acommit, public=True, asynchronous=asynchronous)
    for name in ("commit", "acommit"):
        assert CheckedClient().call_tool(name)["isError"] is False
        assert Group.objects.count() == 1
        Group.objects.all().delete()
    assert ran == ["after", "after"]
    assert outcomes() == ["succeeded", "succeeded"]
