"""Under ASGI, a coroutine's transaction starts with its first query."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from mcp_bridge import ToolError
from mcp_bridge.testing.serving import serve
from tests.support import lane
from tests.support.asgi import posted

pytestmark = pytest.mark.django_db(transaction=True)

# The connections that the threads of requests have made.
MADE: list[BaseDatabaseWrapper] = []


@pytest.fixture(autouse=True, params=[False, True], ids=["django", "direct lane"])
def application(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(lane, "IS_ON", True)


@pytest.fixture(autouse=True)
def made() -> Iterator[None]:
    def note(connection: Any, **known: Any) -> None:
        MADE.append(connection)

    MADE.clear()
    connection_created.connect(note)
    yield
    connection_created.disconnect(note)


@pytest.fixture
def call(settings: Any) -> Callable[..., str]:
    """A function that serves a coroutine function, calls it and returns the answer."""

    def called(function: Any, **marks: Any) -> str:
        serve(settings, function, public=True, asynchronous=True, **marks)

        async def main() -> bytes:
            return await posted(function.__name__)

        return asyncio.run(asyncio.wait_for(main(), 30)).decode()

    return called


def are_open() -> list[bool]:
    """Return whether each connection of the request is in a transaction, seen by the event loop."""
    return [each.in_atomic_block for each in MADE]


def names() -> list[str]:
    return sorted(Group.objects.values_list("name", flat=True))


def write(name: str = "written") -> None:
    with transaction.atomic():
        Group.objects.create(name=name)


def test_coroutine_without_queries_opens_no_transaction(call: Any) -> None:
    found: list[list[bool]] = []

    async def wait() -> str:
        """Wait, and write."""
        await asyncio.sleep(0)
        found.append(are_open())
        await Group.objects.acreate(name="written")
        found.append(are_open())
        return "done"

    assert '"isError":false' in call(wait)
    before, after = found
    # The record of its start has already been written.
    assert before
    assert not any(before)
    assert any(after)
    assert names() == ["written"]


def test_inner_commit_is_rolled_back_with_the_error(call: Any) -> None:
    async def fail() -> None:
        """Write in a separate transaction, and fail."""
        await sync_to_async(write)()
        raise ToolError("Written, then refused.")

    assert '"isError":true' in call(fail)
    assert names() == []


def test_durable_transaction_is_refused_as_in_functions(call: Any) -> None:
    def durable() -> None:
        with transaction.atomic(durable=True):
            Group.objects.create(name="written")

    async def fail() -> None:
        """Write in a durable transaction."""
        await sync_to_async(durable)()

    assert '"isError":true' in call(fail)
    assert names() == []


def test_concurrent_queries_share_one_transaction(call: Any) -> None:
    async def several() -> None:
        """Write several groups at once, of which the last cannot be."""
        writes = [Group.objects.acreate(name=name) for name in "abc"]
        await asyncio.gather(*writes)
        try:
            await sync_to_async(write)("a")
        except IntegrityError:
            await Group.objects.acreate(name="d")

    assert '"isError":false' in call(several)
    assert names() == ["a", "b", "c", "d"]
    assert '"isError":true' in call(several)
    assert names() == ["a", "b", "c", "d"]


def test_result_is_read_within_the_transaction(call: Any) -> None:
    found: list[bool] = []

    async def lazily() -> Any:
        """Return what is read when the result is made."""

        def each() -> Iterator[str]:
            found.append(connection.in_atomic_block)
            yield from Group.objects.values_list("name", flat=True)

        return each()

    assert '"isError":false' in call(lazily)
    assert found == [True]


def test_failed_transaction_start_is_retried_by_the_next_query(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    enter = transaction.Atomic.__enter__

    def refuse_once(self: Any) -> None:
        # Only the call's transaction: those for the package's own rows have ended by then.
        if waits and len(begun) < 2:
            begun.append("refused")
            if len(begun) == 1:
                raise OperationalError("the database is away")
        enter(self)

    waits: list[bool] = []
    monkeypatch.setattr(transaction.Atomic, "__enter__", refuse_once)

    async def persist(fail: bool = True) -> None:
        """Write a group, again if the database is unreachable."""
        waits.append(True)
        with pytest.raises(OperationalError):
            await Group.objects.acount()
        await Group.objects.acreate(name="written")
        raise ToolError("Written, then refused.")

    assert '"isError":true' in call(persist)
    assert names() == []


def test_idle_coroutine_releases_its_connection(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    close = BaseDatabaseWrapper.close_if_unusable_or_obsolete

    def note(self: BaseDatabaseWrapper) -> None:
        closed.append(self.alias)
        close(self)

    monkeypatch.setattr(BaseDatabaseWrapper, "close_if_unusable_or_obsolete", note)

    async def wait() -> str:
        """Wait until its connections are asked to close, and write."""
        closed.clear()
        while not closed:
            await asyncio.sleep(0.01)
        await Group.objects.acreate(name="written")
        return "done"

    assert '"isError":false' in call(wait)
    assert names() == ["written"]


def test_coroutine_keeps_a_used_connection(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp_bridge.concurrency import threads

    monkeypatch.setattr(threads, "HELD", 0)
    found: list[list[bool]] = []

    async def wait() -> None:
        """Write, and wait."""
        await Group.objects.acreate(name="written")
        for _ in range(20):
            await asyncio.sleep(0)
        found.append([each.connection is not None for each in MADE])

    assert '"isError":false' in call(wait)
    assert any(found[0])
    assert names() == ["written"]
