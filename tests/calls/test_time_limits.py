"""Calls that reach their time limit are ended, and their writes undone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

from mcp_bridge import Context, mcp_tool
from mcp_bridge.exceptions import Cancelled, TimedOut
from mcp_bridge.server.perform import call_named
from mcp_bridge.server.server import MCPServer
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.recording import record

SEEN: list[str] = []


def looping(context: Context, rounds: int = 200) -> str:
    """Write, and report for two seconds."""
    Group.objects.create(name="half")
    try:
        for number in range(rounds):
            context.progress(number)
            time.sleep(0.01)
    except Cancelled:
        SEEN.append(f"{context.cancelled}")
        raise
    return "done"


async def awaiting(seconds: float = 2) -> str:
    """Write, and wait."""
    await Group.objects.acreate(name="half")
    await asyncio.sleep(seconds)
    return "done"


async def areporting(context: Context) -> str:
    """Write, and block the event loop."""
    await Group.objects.acreate(name="half")
    for number in range(200):
        context.progress(number)
        time.sleep(0.01)
    return "done"


def swallowing(context: Context) -> str:
    """Go on after any exception."""
    for _ in range(200):
        try:
            context.progress(1)
        except Exception:
            SEEN.append("swallowed")
        time.sleep(0.01)
    return "done"


@pytest.fixture
def client(user: Any) -> CheckedClient:
    SEEN.clear()
    return CheckedClient(user=user)


@pytest.mark.parametrize("tool", [looping, awaiting, areporting, swallowing])
def test_tool_is_stopped_after_its_time_limit(
    client: CheckedClient, settings: Any, tool: Callable[..., object]
) -> None:
    serve(settings, tool, timeout=0.05)
    said = client.call_tool(tool.__name__)
    assert said["isError"]
    assert text_of(said) == (
        f"The tool {tool.__name__} was stopped after its time limit of 0.05 seconds. Request less "
        "in one call; repeating the call unchanged will not help."
    )
    assert not Group.objects.exists()
    assert (["True"] if tool is looping else []) == SEEN
    found = record()
    assert (found.outcome, found.error_code) == ("failed", "timed_out")
    assert found.duration_ms < 1000


def test_setting_limits_tools_without_a_limit(client: CheckedClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {"CALL_TIMEOUT": 0.05}
    serve(settings, awaiting)
    assert "0.05 seconds" in text_of(client.call_tool("awaiting"))
    serve(settings, awaiting, timeout=5)
    assert text_of(client.call_tool("awaiting", {"seconds": 0.2})) == "done"


@pytest.mark.parametrize("tool", [looping, awaiting])
def test_call_within_its_limit_is_untouched(
    client: CheckedClient, settings: Any, tool: Callable[..., object]
) -> None:
    serve(settings, tool, timeout=30)
    given = {"seconds": 0} if tool is awaiting else {"rounds": 2}
    assert text_of(client.call_tool(tool.__name__, given)) == "done"
    assert Group.objects.exists()


async def failing() -> str:
    """Raise a timeout."""
    raise TimeoutError("the other service")


def test_own_timeout_of_a_tool_is_its_error(client: CheckedClient, settings: Any) -> None:
    serve(settings, failing, timeout=30)
    assert "reference" in text_of(client.call_tool("failing"))
    assert record().error_code == "internal_error"


def outer(context: Context) -> str:
    """Call another tool, and go on."""
    said = call_named(MCPServer(), "looping", {"rounds": 100}, context)
    SEEN.append(said.content[0].text)  # type: ignore[union-attr]
    for number in range(30):
        context.progress(number)
        time.sleep(0.01)
    return "done"


def test_inner_call_has_its_own_limit(client: CheckedClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {"CALL_TIMEOUT": 0.05}
    serve(settings, outer, looping)
    # serve() gives all its tools the same options.
    mcp_tool(timeout=5)(outer)
    reports: list[Any] = []
    assert text_of(client.call_tool("outer", progress=reports.append)) == "done"
    assert SEEN[-1].startswith("The tool looping was stopped")
    assert reports[0]["progress"] == 0


@pytest.mark.parametrize("limit", [0, -1, float("inf"), float("nan"), "1", [1]])
def test_wrong_limit_is_refused_at_the_mark(limit: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="timeout"):
        mcp_tool(timeout=limit)(looping)


def sleeping() -> str:
    """Wait in the database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(5)")
    return "done"


def limit_now() -> str:
    """Return the limit of statements."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        found: str = cursor.fetchone()[0]
    return found


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("read_only", [True, False])
def test_postgresql_ends_statements_at_the_limit(
    client: CheckedClient, settings: Any, read_only: bool
) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("Only PostgreSQL limits the time of statements.")
    serve(settings, sleeping, timeout=0.1, read_only=read_only)
    assert "time limit of 0.1 seconds" in text_of(client.call_tool("sleeping"))
    assert record().error_code == "timed_out"
    serve(settings, limit_now, timeout=0.1, read_only=read_only)
    assert text_of(client.call_tool("limit_now")) == "100ms"
    # The limit is one of the transaction.
    assert limit_now() == "0"


def raising(context: Context) -> str:
    """Stop as the documentation of ``cancelled`` suggests."""
    time.sleep(0.1)
    if context.cancelled:
        raise Cancelled
    return "done"


async def araising(context: Context) -> str:
    """Stop as the documentation of ``cancelled`` suggests."""
    return raising(context)


def ungrounded() -> str:
    """Raise it without a reason."""
    raise TimedOut


async def aungrounded() -> str:
    """Raise it without a reason."""
    raise Cancelled


def keeping(context: Context) -> str:
    """Go on after everything."""
    Group.objects.create(name="half")
    for _ in range(30):
        with suppress(BaseException):
            context.progress(1)
        time.sleep(0.01)
    return "done"


async def grouping(context: Context) -> str:
    """Have a task group swallow the cancellation of a child."""

    async def child() -> None:
        await Group.objects.acreate(name="half")
        for number in range(30):
            time.sleep(0.01)
            context.progress(number)

    async with asyncio.TaskGroup() as group:
        group.create_task(child())
    return "done"


@pytest.mark.parametrize("tool", [raising, araising, keeping, grouping])
@pytest.mark.parametrize("token", [True, False])
def test_late_tool_cannot_evade_its_limit(
    client: CheckedClient, settings: Any, tool: Callable[..., object], token: bool
) -> None:
    serve(settings, tool, timeout=0.05)
    progress = (lambda report: None) if token else None
    assert "time limit" in text_of(client.call_tool(tool.__name__, progress=progress))
    assert record().error_code == "timed_out"
    assert not Group.objects.exists()


@pytest.mark.parametrize("tool", [ungrounded, aungrounded])
@pytest.mark.parametrize("limit", [None, 30])
def test_cancellation_without_a_reason_is_an_error(
    client: CheckedClient, settings: Any, tool: Callable[..., object], limit: float | None
) -> None:
    serve(settings, tool, timeout=limit)
    assert "reference" in text_of(client.call_tool(tool.__name__))
    assert record().error_code == "internal_error"


def lazy(context: Context) -> dict[str, Any]:
    """Return values that are made later."""

    def values() -> Iterator[int]:
        for number in range(30):
            context.progress(number)
            time.sleep(0.01)
            yield number

    return {"values": values()}


def test_lazy_values_count_towards_the_limit(client: CheckedClient, settings: Any) -> None:
    serve(settings, lazy, timeout=0.05)
    assert "time limit" in text_of(client.call_tool("lazy"))
    assert record().error_code == "timed_out"


@pytest.mark.django_db(transaction=True)
def test_reports_after_the_commit_are_ignored(client: CheckedClient, settings: Any) -> None:
    def hooked(context: Context) -> str:
        """Report when the writes are committed."""
        Group.objects.create(name="whole")
        transaction.on_commit(lambda: context.progress(1))
        time.sleep(0.1)
        return "done"

    serve(settings, hooked, timeout=0.05)
    assert text_of(client.call_tool("hooked")) == "done"
    assert Group.objects.exists()
    assert record().outcome == "succeeded"
