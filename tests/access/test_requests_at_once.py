"""Requests at once under ASGI: a limited number has a thread, and the others wait without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from rest_framework.authentication import BaseAuthentication

from mcp_bridge.concurrency import places
from mcp_bridge.testing import MCPClient
from tests.support import lane
from tests.support.asgi import Departing, Exchange, posted, scope_of, scope_with
from tests.support.values import dumps

pytestmark = [
    # Code in a thread has a separate connection.
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("application"),
]
SLOW = {"AUTHENTICATION_CLASSES": [f"{__name__}.SlowAuthentication"]}


class SlowAuthentication(BaseAuthentication):
    """A class that finds no user, once the test lets it continue."""

    # The header X-Number of each request, in order, and their threads.
    asked: list[str]
    threads: set[threading.Thread]
    go_on: threading.Event

    def authenticate(self, request: Any) -> None:
        self.asked.append(request.META.get("HTTP_X_NUMBER", ""))
        self.threads.add(threading.current_thread())
        assert self.go_on.wait(20)


@pytest.fixture(autouse=True)
def none_waits() -> Iterator[None]:
    """Check that no slot is taken before a test, or left taken after it."""
    SlowAuthentication.asked, SlowAuthentication.threads = [], set()
    SlowAuthentication.go_on = threading.Event()
    yield
    assert all(made._value == most for most, made in places._slots.values())


def look() -> str:
    """Look."""
    return "looked"


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def run(main: Awaitable[None]) -> None:
    asyncio.run(asyncio.wait_for(main, 30))


def in_line(wanted: int) -> Callable[[], bool]:
    return lambda: waiting() == wanted


def waiting() -> int:
    """Return how many requests wait for a slot."""
    made = places.request_slots()
    return len(made._waiters or ()) if made is not None else 0


async def refused(scope: dict[str, Any], body: bytes) -> tuple[int, bytes, str]:
    """Return the status, Retry-After and text of an answer that is an error."""
    answer = await Exchange(scope, body).run(lane.application())
    headers = {name.lower(): value for name, value in answer.sent[0]["headers"]}
    return answer.status, headers[b"retry-after"], answer.body.decode()


def test_requests_with_a_thread_are_limited(limit: Any) -> None:
    limit(look, asynchronous=True, MAX_PROCESS_REQUESTS=2, **SLOW)

    async def main() -> None:
        calls = [asyncio.ensure_future(posted("look")) for _ in range(5)]
        await until(in_line(3))
        await asyncio.sleep(0.05)
        assert (len(SlowAuthentication.asked), len(SlowAuthentication.threads)) == (2, 2)
        SlowAuthentication.go_on.set()
        assert all(b"looked" in each for each in await asyncio.gather(*calls))
        assert len(SlowAuthentication.asked) == 5

    run(main())


def test_without_a_limit_each_request_has_a_thread(limit: Any) -> None:
    limit(look, asynchronous=True, MAX_PROCESS_REQUESTS=None, **SLOW)

    async def main() -> None:
        calls = [asyncio.ensure_future(posted("look")) for _ in range(12)]
        await until(lambda: len(SlowAuthentication.asked) == 12)
        SlowAuthentication.go_on.set()
        await asyncio.gather(*calls)

    run(main())


def test_requests_are_served_in_order(limit: Any) -> None:
    limit(look, asynchronous=True, MAX_PROCESS_REQUESTS=1, **SLOW)

    async def main() -> None:
        calls = []
        for number in range(6):
            scope, body = scope_of("look")
            scope["headers"].append((b"x-number", b"%d" % number))
            work = Exchange(scope, body).run(lane.application())
            calls.append(asyncio.ensure_future(work))
            await until(lambda: waiting() + len(SlowAuthentication.asked) == len(calls))
        SlowAuthentication.go_on.set()
        assert [each.status for each in await asyncio.gather(*calls)] == [200] * 6

    run(main())
    assert SlowAuthentication.asked == [*"012345"]


@pytest.mark.parametrize("way", ["call", "page"])
def test_long_wait_for_a_slot_is_503(way: str, limit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "PATIENCE", 0.05)
    limit(look, asynchronous=True, MAX_PROCESS_REQUESTS=1, **SLOW)
    page = {**scope_with([(b"host", b"testserver")]), "method": "GET", "path": "/mcp/tools/list"}
    scope, body = scope_of("look") if way == "call" else (page, b"")

    async def main() -> None:
        first = asyncio.ensure_future(posted("look"))
        await until(lambda: len(SlowAuthentication.asked) == 1)
        status, retry_after, text = await refused(scope, body)
        assert (status, retry_after) == (503, b"5")
        advice = "The server is busy: the request has waited 0.05 seconds. Retry after 5 seconds."
        assert advice in text
        SlowAuthentication.go_on.set()
        await first

    run(main())


def test_pages_of_tools_wait_in_the_same_line(limit: Any) -> None:
    limit(look, asynchronous=True, MAX_PROCESS_REQUESTS=1, **SLOW)
    page = {**scope_with([(b"host", b"testserver")]), "method": "GET", "path": "/mcp/tools/list"}

    async def main() -> None:
        first = asyncio.ensure_future(posted("look"))
        await until(lambda: len(SlowAuthentication.asked) == 1)
        second = asyncio.ensure_future(Exchange(page, b"").run(lane.application()))
        await until(in_line(1))
        SlowAuthentication.go_on.set()
        await first
        answer = await second
        assert (answer.status, b'"name":"look"' in answer.body) == (200, True)

    run(main())


def test_client_that_disconnects_leaves_the_line(limit: Any) -> None:
    limit(look, asynchronous=True, MAX_PROCESS_REQUESTS=1, **SLOW)

    async def main() -> None:
        first = asyncio.ensure_future(posted("look"))
        await until(lambda: len(SlowAuthentication.asked) == 1)
        gone, stays = Departing("look"), asyncio.ensure_future(posted("look"))
        await until(in_line(2))
        await gone.go()
        await gone.end()
        assert in_line(1)()
        SlowAuthentication.go_on.set()
        await asyncio.gather(first, stays)

    run(main())
    assert len(SlowAuthentication.asked) == 2


@pytest.mark.parametrize("asynchronous", [False, True], ids=["function", "coroutine"])
def test_long_call_frees_its_slot(asynchronous: bool, limit: Any) -> None:
    running: list[int] = []
    go_on = threading.Event()
    SlowAuthentication.go_on.set()

    def stay() -> str:
        """Stay until the test continues."""
        running.append(1)
        assert go_on.wait(20)
        return "stayed"

    async def astay() -> str:
        """Stay until the test continues."""
        running.append(1)
        await until(go_on.is_set)
        return "stayed"

    tool = astay if asynchronous else stay
    limit(tool, look, asynchronous=True, MAX_PROCESS_REQUESTS=1, **SLOW)

    async def main() -> None:
        calls = [asyncio.ensure_future(posted(tool.__name__)) for _ in range(3)]
        await until(lambda: len(running) == 3)
        assert b"looked" in await posted("look")
        go_on.set()
        assert all(b"stayed" in each for each in await asyncio.gather(*calls))

    run(main())


def test_batch_that_has_begun_does_not_wait_again(limit: Any) -> None:
    waiting = asyncio.Event()
    go_on = asyncio.Event()
    SlowAuthentication.go_on.set()

    async def wait() -> str:
        """Wait until the test continues."""
        waiting.set()
        await go_on.wait()
        return "waited"

    limit(wait, look, asynchronous=True, MAX_PROCESS_REQUESTS=1, **SLOW)
    client = MCPClient(revision="2025-03-26")
    names = ["look", "wait", "look", "look"]
    messages = [client.message("tools/call", name=name, arguments={}) for name in names]
    headers = [(b"host", b"testserver"), (b"content-type", b"application/json")]

    async def main() -> None:
        batch = asyncio.ensure_future(
            Exchange(scope_with(headers), dumps(messages)).run(lane.application())
        )
        await waiting.wait()
        # While another request has the only slot.
        SlowAuthentication.go_on.clear()
        other = asyncio.ensure_future(posted("look"))
        await until(lambda: len(SlowAuthentication.asked) == 2)
        go_on.set()
        answer = await batch
        assert answer.body.count(b"looked") == 3
        assert b"waited" in answer.body
        assert not other.done()
        SlowAuthentication.go_on.set()
        await other

    run(main())


@pytest.mark.parametrize("moments", range(4))
def test_turn_of_a_disconnecting_client_is_passed_on(moments: int, limit: Any) -> None:
    limit(look, asynchronous=True, MAX_PROCESS_REQUESTS=1, **SLOW)

    async def main() -> None:
        first, second, third = places.RequestSlot(), places.RequestSlot(), places.RequestSlot()
        await first.take()
        going, staying = asyncio.ensure_future(second.take()), asyncio.ensure_future(third.take())
        await until(in_line(2))
        first.free()
        for _ in range(moments):
            await asyncio.sleep(0)
        going.cancel()
        await asyncio.wait([going])
        second.free()
        await staying
        third.free()

    run(main())
