"""Threads that neither block each other nor themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from mcp_bridge.registry import registry as module
from mcp_bridge.registry.registry import Snapshot, registry
from mcp_bridge.signals import tools_changed
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.serving import set_tool

pytestmark = pytest.mark.django_db(transaction=True)


def wipe(folder: str) -> str:
    """Wipe a folder."""
    return folder


class Running(Thread):
    """A function in a thread that does not keep the process from its end."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._function = function
        self._result: Any = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._function()
        finally:
            # Django keeps connections to a database in memory open.
            if connection.connection is not None:
                connection.connection.close()
                connection.connection = None

    def result(self) -> Any:
        self.join(10)
        assert not self.is_alive(), "the thread waits for ever"
        return self._result


@contextmanager
def receiving(receiver: Callable[[], None]) -> Iterator[None]:
    def receive(**kwargs: Any) -> None:
        receiver()

    tools_changed.connect(receive)
    try:
        yield
    finally:
        tools_changed.disconnect(receive)


def read() -> None:
    assert registry.snapshot is not None


def read_in_another_thread() -> None:
    def attempt() -> None:
        # SQLite in memory refuses to read a table that is being written.
        with suppress(DatabaseError):
            read()

    Running(attempt).result()


@pytest.mark.parametrize("receiver", [read, read_in_another_thread])
def test_receiver_may_read_the_snapshot_during_an_approval(
    receiver: Callable[[], None], settings: Any, user: Any
) -> None:
    serve(settings, wipe, confirm=True)
    with receiving(receiver):
        listed = Running(lambda: CheckedClient(user=user).list_tools()).result()
        assert [tool["name"] for tool in listed] == ["wipe"]


def test_change_applies_though_a_receiver_reads_before_it(settings: Any, user: Any) -> None:
    serve(settings, wipe)
    client = CheckedClient(user=user)
    setting = set_tool("wipe")
    assert len(client.list_tools()) == 1
    with receiving(read):
        setting.enabled = False
        setting.save()
        assert client.list_tools() == []


@pytest.fixture
def reading(settings: Any) -> Iterator[Callable[[], None]]:
    """
    Begin to read the snapshot in another thread, and hold its first query until the test ends.
    """
    settings.MCP_BRIDGE = {"STATE_MAX_AGE": 60}
    serve(settings, wipe)
    over, threads = Event(), []

    def begin() -> None:
        begun = Event()

        def slow(execute: Any, *args: Any) -> Any:
            begun.set()
            over.wait(10)
            return execute(*args)

        def read_slowly() -> None:
            with connection.execute_wrapper(slow):
                read()

        threads.append(Running(read_slowly))
        assert begun.wait(10)

    yield begin
    over.set()
    for thread in threads:
        thread.result()


def read_counted() -> tuple[Snapshot, int]:
    """Return the snapshot and how many queries it took, in a thread that may not wait."""

    def counted() -> tuple[Snapshot, int]:
        with CaptureQueriesContext(connection) as asked:
            return registry.snapshot, len(asked)

    found: tuple[Snapshot, int] = Running(counted).result()
    return found


@pytest.mark.parametrize(("age", "queries"), [(29, 0), (31, 0), (59, 0), (61, 1), (1e6, 1)])
def test_other_threads_use_the_old_state_during_a_read(
    age: float, queries: int, reading: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    registry.forget()
    before = registry.snapshot
    now += age
    if age > 30:
        reading()
    assert read_counted() == (before, queries)


def test_slow_first_query_delays_no_other_thread(reading: Callable[[], None]) -> None:
    registry.reload()
    reading()
    assert read_counted()[1] == 4
    registry.forget()
    assert read_counted()[1] == 1
