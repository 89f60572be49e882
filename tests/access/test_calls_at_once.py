"""Calls at once: limits of one caller, and of all; a slot is freed however a call ends."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.checks import run_checks
from django.urls import path
from modernrpc.server import RpcServer

from mcp_bridge import Context, ToolError, mcp_tool
from mcp_bridge.concurrency import places
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from tests.contract.test_throttling import NETWORKS
from tests.support import lane
from tests.support.asgi import Departing, posted, scope_of, sent
from tests.support.values import dumps

pytestmark = pytest.mark.alone

REFUSED: list[MCPClient] = []


def again(names: list[str]) -> int:
    """Call this tool once more from inside, as each of these users; return how many calls ran."""
    name, *rest = names or [""]
    client = MCPClient(user=user_named(name) if name else None)
    try:
        result = client.call_tool("again", {"names": rest}) if names else {}
    except MCPError:
        REFUSED.append(client)
        return 1
    return 1 + int(result.get("structuredContent", {"result": 0})["result"])


def user_named(name: str) -> Any:
    return get_user_model().objects.get_or_create(username=name)[0]


@pytest.fixture(autouse=True)
def none_runs() -> Any:
    """Check that no slot is taken before a test, or left taken after it."""
    assert (places._running, places._all) == ({}, 0)
    REFUSED.clear()
    yield
    assert (places._running, places._all) == ({}, 0)


@pytest.mark.parametrize("kind", ["", "ada"], ids=["address", "user"])
def test_calls_of_one_caller_are_limited(kind: str, revision: str, limit: Any) -> None:
    limit(again, MAX_CONCURRENT_CALLS=3)
    client = CheckedClient(user=user_named(kind) if kind else None, revision=revision)
    names = [kind] * 5
    # A call with the last name runs none inside.
    result = client.call_tool("again", {"names": names})
    assert result["isError"] is False
    (refused,) = REFUSED
    assert refused.response.status_code == 429
    assert refused.response["Retry-After"] == "1"
    error = refused.response.json()["error"]
    assert error == {
        "code": 429,
        "message": "Too many concurrent calls: 3 are running. Retry after 1 second.",
    }
    # The running calls have ended.
    assert client.call_tool("again", {"names": names[:2]})["isError"] is False
    assert len(REFUSED) == 1


@pytest.mark.parametrize(("addresses", "other"), NETWORKS.values(), ids=NETWORKS)
def test_calls_at_once_count_by_network(addresses: list[str], other: str, limit: Any) -> None:
    def nested(left: list[str]) -> int:
        """Call this tool from inside, from each of these addresses; return how many calls ran."""
        if not left:
            return 0
        client = MCPClient()
        client.http.defaults["REMOTE_ADDR"] = left[0]
        try:
            result = client.call_tool("nested", {"left": left[1:]})
        except MCPError:
            return 0
        return 1 + int(result["structuredContent"]["result"])

    limit(nested, MAX_CONCURRENT_CALLS=1)
    assert nested(addresses[:1] + addresses[-1:]) == 1
    assert nested([addresses[0], other]) == 2


def test_client_of_any_revision_reads_the_status(revision: str, user: Any, limit: Any) -> None:
    client = CheckedClient(user=user, revision=revision)

    def inside() -> int:
        """Call this tool from inside."""
        with pytest.raises(MCPError):
            client.call_tool("inside")
        return int(client.response.status_code)

    limit(inside, MAX_CONCURRENT_CALLS=1)
    outer = CheckedClient(user=user, revision=revision)
    assert outer.call_tool("inside")["content"][0]["text"] == "429"


def test_limit_of_one_caller_does_not_affect_another(limit: Any) -> None:
    limit(again, MAX_CONCURRENT_CALLS=2, MAX_PROCESS_CALLS=None)
    names = ["ada", "eve", "ada", "eve", "", ""]
    assert MCPClient().call_tool("again", {"names": names})["structuredContent"] == {"result": 6}
    assert len(REFUSED) == 1


def test_calls_of_all_callers_are_limited(limit: Any) -> None:
    limit(again, MAX_CONCURRENT_CALLS=None, MAX_PROCESS_CALLS=3)
    names = ["ada", "eve", "bob", "tom"]
    assert MCPClient().call_tool("again", {"names": names})["structuredContent"] == {"result": 3}
    (refused,) = REFUSED
    assert (refused.response.status_code, refused.response["Retry-After"]) == (503, "1")
    assert refused.response.json()["error"] == {
        "code": 503,
        "message": "The server is busy: it runs 3 calls at once. Retry after 1 second.",
    }


def test_refusals_of_one_caller_leave_one_record(user: Any, limit: Any) -> None:
    def thrice(context: Context) -> list[int]:
        """Call this tool three times from inside."""
        client, statuses = MCPClient(user=context.user), []
        for _ in range(3):
            with pytest.raises(MCPError):
                client.call_tool("thrice")
            statuses.append(client.response.status_code)
        return statuses

    limit(thrice, MAX_CONCURRENT_CALLS=1)
    called = MCPClient(user=user).call_tool("thrice")
    assert called["structuredContent"] == {"result": [429, 429, 429]}
    (row,) = ToolCallRecord.objects.filter(outcome="refused")
    assert (row.tool, row.error_code, row.user) == ("thrice", "throttled", user)


def test_unknown_tool_is_unknown_at_the_limit_too(limit: Any) -> None:
    def ask() -> str:
        """Call an unknown tool."""
        with pytest.raises(MCPError) as raised:
            MCPClient().call_tool("nothing")
        return str(raised.value)

    limit(ask, MAX_CONCURRENT_CALLS=1)
    assert "Unknown tool: nothing" in MCPClient().call_tool("ask")["content"][0]["text"]


def test_each_message_of_a_batch_has_its_own_slot(user: Any, limit: Any) -> None:
    client = CheckedClient(user=user, revision="2025-03-26")
    limit(again, MAX_CONCURRENT_CALLS=1)
    calls = [
        client.message("tools/call", name="again", arguments={"names": names})
        for names in ([], ["ada"], [])
    ]
    answers = client.send(dumps(calls)).json()
    found = [each["result"]["content"][0]["text"] for each in answers]
    # Each has the slot in turn; the call inside the second exceeds the limit.
    assert (found, len(REFUSED)) == (["1", "1", "1"], 1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"MAX_CONCURRENT_CALLS": None, "MAX_PROCESS_CALLS": None}, []),
        ({"MAX_PROCESS_CALLS": 1}, []),
        ({"MAX_PROCESS_CALLS": 20}, ["W024"]),
        ({"MAX_CONCURRENT_CALLS": None}, ["W024"]),
        ({"MAX_CONCURRENT_CALLS": 0}, ["E002"]),
        ({"MAX_CONCURRENT_CALLS": "20"}, ["E002"]),
        ({"MAX_PROCESS_CALLS": 2.5}, ["E002"]),
        ({"MAX_PROCESS_REQUESTS": None}, []),
        ({"MAX_PROCESS_REQUESTS": 0}, ["E002"]),
        ({"MAX_CONCURENT_CALLS": 5}, ["E001"]),
    ],
)
def test_wrong_limits_are_found_by_the_checks(
    options: dict[str, Any], expected: list[str], settings: Any
) -> None:
    settings.MCP_BRIDGE = options
    found = [each for each in run_checks(tags=["mcp_bridge"]) if "MCP_BRIDGE" in each.msg]
    assert [each.id for each in found] == [f"mcp_bridge.{each}" for each in expected]
    assert all(each.hint for each in found)


class GoneError(BaseException):
    """An exception that ends more than a tool."""


def end(how: str) -> Any:
    """End in some way."""
    match how:
        case "tool":
            raise ToolError("no")
        case "bug":
            raise RuntimeError("no")
        case "exit":
            raise SystemExit(3)
        case "gone":
            raise GoneError
        case "cancelled":
            raise asyncio.CancelledError
        case "stop":
            raise StopIteration
        case "error":
            return CallToolResult.error("no")
        case "rubbish":
            return float("nan")
    return how


async def aend(how: str) -> Any:
    """End in some way, in a coroutine."""
    await asyncio.sleep(0)
    return end(how)


ENDS = ["tool", "bug", "exit", "gone", "cancelled", "stop", "error", "rubbish", "well"]


# A record may be written by another thread's connection.
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["wsgi", "asgi"])
@pytest.mark.parametrize("how", [*ENDS, 5])
@pytest.mark.parametrize("function", [end, aend])
def test_slot_is_freed_however_a_call_ends(
    function: Any, how: Any, asynchronous: bool, limit: Any
) -> None:
    limit(function, asynchronous=asynchronous, MAX_CONCURRENT_CALLS=1)
    client = CheckedClient()
    try:
        client.call_tool(function.__name__, {"how": how})
    except GoneError:
        assert how == "gone"
    assert not places._running
    assert client.call_tool(function.__name__, {"how": "well"})["isError"] is False


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("application")
def test_calls_that_wait_on_an_event_loop_are_counted(limit: Any) -> None:
    waiting: list[int] = []
    go_on = asyncio.Event()

    async def wait() -> str:
        """Wait until the test continues."""
        waiting.append(1)
        await go_on.wait()
        return "waited"

    limit(wait, asynchronous=True, MAX_CONCURRENT_CALLS=3)

    async def main() -> tuple[list[bytes], bytes]:
        calls = [asyncio.ensure_future(posted("wait")) for _ in range(3)]
        while len(waiting) < 3:
            await asyncio.sleep(0)
        refused = await posted("wait", status=429)
        go_on.set()
        return await asyncio.gather(*calls), refused

    answers, refused = asyncio.run(asyncio.wait_for(main(), 20))
    assert all(b'"isError":false' in each for each in answers)
    assert b"Too many concurrent calls: 3 are running." in refused


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("application")
def test_functions_that_wait_for_a_thread_do_not_count(settings: Any) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def held(request: object) -> bool:
        entered.set()
        return go_on.wait(10)

    def guarded() -> str:
        """Return a word."""
        return "guarded"

    def quick() -> str:
        """Return a word."""
        return "quick"

    settings.MCP_BRIDGE = {"MAX_PROCESS_REQUESTS": 1, "STATE_MAX_AGE": 60}
    server = RpcServer(register_system_procedures=False)
    public = mcp_tool(public=True, read_only=True)
    server.register_procedure(public(guarded), auth=held)
    server.register_procedure(public(quick))
    route(settings, path("rpc", server.view), asynchronous=True)

    # Made before, because a new test client makes the registry read the tools again.
    of_guarded, *of_quick = (scope_of(name) for name in ("guarded", *["quick"] * 6))

    async def main() -> int:
        await sent(*of_quick.pop())
        assert registry.fresh is not None
        first = asyncio.ensure_future(sent(*of_guarded))
        await asyncio.to_thread(entered.wait, 10)
        calls = [asyncio.ensure_future(sent(*each)) for each in of_quick]
        done, _waiting = await asyncio.wait(calls, timeout=0.2)
        counted = places._all + len(done)
        go_on.set()
        await asyncio.gather(first, *calls)
        return counted

    assert asyncio.run(asyncio.wait_for(main(), 20)) == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, 20),
        ({"MAX_CONCURRENT_CALLS": None}, 80),
        ({"MAX_CONCURRENT_CALLS": None, "MAX_PROCESS_CALLS": None}, 90),
    ],
)
def test_default_limit_and_no_limit_are_applied(
    limits: dict[str, None], expected: int, limit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "IS_ON", True)
    go_on = asyncio.Event()

    async def wait() -> str:
        """Wait until the test continues."""
        await go_on.wait()
        return "waited"

    limit(wait, asynchronous=True, **limits)

    async def main() -> None:
        calls = [asyncio.ensure_future(posted("wait", status=None)) for _ in range(90)]
        while places._all + sum(each.done() for each in calls) < 90:
            await asyncio.sleep(0)
        assert list(places._running.values()) == [expected]
        go_on.set()
        bodies = await asyncio.gather(*calls)
        assert sum(b'"isError":false' in each for each in bodies) == expected

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("application")
def test_slot_is_freed_when_its_client_disconnects(limit: Any) -> None:
    waiting: list[int] = []

    async def wait() -> str:
        """Wait for long."""
        waiting.append(1)
        await asyncio.Event().wait()
        return "waited"

    limit(wait, asynchronous=True, MAX_CONCURRENT_CALLS=1)

    async def main() -> None:
        for number in (1, 2):
            call = Departing("wait")
            while len(waiting) < number:
                await asyncio.sleep(0)
            assert list(places._running.values()) == [1]
            await call.go()
            await call.end()
            assert not places._running

    asyncio.run(asyncio.wait_for(main(), 20))
