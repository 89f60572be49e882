"""Progress of calls, sent before their results in a stream, on each way in."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Group
from django.db import connection, connections, transaction
from django.test import AsyncClient, Client
from django.utils.translation import get_language, gettext_lazy, override

from mcp_bridge import Context
from mcp_bridge.exceptions import Cancelled
from mcp_bridge.server.perform import call_named
from mcp_bridge.server.server import MCPServer
from mcp_bridge.signals import tool_call_finished
from mcp_bridge.testing.serving import serve
from tests.support.asgi import Exchange, scope_for
from tests.support.recording import record
from tests.support.streaming import WAYS, Streamed, application, calling, streamed
from tests.support.values import dumps

pytestmark = pytest.mark.django_db(transaction=True)

SEEN: list[Any] = []


def steps(context: Context, of: int = 3, wait: float = 0) -> int:
    """Report each step."""
    SEEN.append((threading.current_thread(), get_language(), context.user.is_authenticated))
    for number in range(1, of + 1):
        context.progress(number, of, f"step {number}")
        time.sleep(wait)
    return of


async def asteps(context: Context, of: int = 3, wait: float = 0) -> int:
    """Report each step."""
    for number in range(1, of + 1):
        context.progress(number, of, f"step {number}")
        await asyncio.sleep(wait)
    return of


def silent(seconds: float) -> str:
    """Take a while."""
    time.sleep(seconds)
    return "done"


async def asilent(seconds: float) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return "done"


def writing(context: Context, of: int = 1000) -> str:
    """Write a group, and report until the client has gone."""
    Group.objects.create(name="half")
    try:
        for number in range(of):
            context.progress(number)
            Group.objects.create(name=f"more {number}")
            time.sleep(0.01)
    except Cancelled:
        SEEN.append(("cancelled", context.cancelled))
        raise
    return "written"


async def awriting(context: Context, of: int = 1000) -> str:
    """Write a group, and report until the client has gone."""
    await Group.objects.acreate(name="half")
    try:
        for number in range(of):
            context.progress(number)
            await Group.objects.acreate(name=f"more {number}")
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        SEEN.append(("cancelled", True))
        raise
    return "written"


TOOLS: tuple[Callable[..., object], ...] = (*(steps, asteps, silent, asilent, writing, awriting),)


@pytest.fixture(autouse=True)
def no_live_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore a connection that a live server of other tests shares."""
    monkeypatch.setattr(connections["default"], "_thread_sharing_count", 0)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, settings: Any) -> str:
    SEEN.clear()
    way: str = request.param
    serve(settings, *TOOLS, asynchronous=way != "wsgi", public=True)
    return way


def call(way: str, tool: str, token: object = "t", **arguments: Any) -> Streamed:
    return streamed(way, *calling(tool, token, **arguments))


@pytest.mark.requirement("progress.ends")
@pytest.mark.requirement("progress.token")
@pytest.mark.requirement("http.stream")
@pytest.mark.parametrize("tool", ["steps", "asteps"])
def test_progress_is_sent_before_the_result(way: str, tool: str) -> None:
    found = call(way, tool)
    assert (found.status, found.headers["content-type"]) == (200, "text/event-stream")
    assert (found.headers["cache-control"], found.headers["x-accel-buffering"]) == (
        *("no-store", "no"),
    )
    assert "content-length" not in found.headers
    assert found.progress == [
        {"progressToken": "t", "progress": each, "total": 3, "message": f"step {each}"}
        for each in (1, 2, 3)
    ]
    assert found.result["structuredContent"] == {"result": 3}
    assert found.messages[-1]["id"] == 1
    assert record().outcome == "succeeded"


@pytest.mark.parametrize("tool", ["steps", "asteps"])
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_legacy_clients_receive_progress(way: str, tool: str, revision: str) -> None:
    found = streamed(way, *calling(tool, 7, revision))
    assert [each["progressToken"] for each in found.progress] == [7, 7, 7]


@pytest.mark.parametrize("tool", ["steps", "asteps"])
def test_events_arrive_while_the_tool_runs(way: str, tool: str) -> None:
    found = call(way, tool, wait=0.2)
    pauses = [later - earlier for earlier, later in zip(found.times, found.times[1:], strict=False)]
    assert all(each > 0.1 for each in pauses)


def without(headers: dict[str, str], accept: str) -> dict[str, str]:
    return {**headers, "Accept": accept}


@pytest.mark.parametrize("tool", ["steps", "asteps"])
def test_call_without_a_token_is_answered_with_json(way: str, tool: str) -> None:
    plain = call(way, tool, token=None)
    headers, body = calling(tool)
    unaccepted = streamed(way, without(headers, "application/json"), body)
    assert not plain.is_stream
    assert not unaccepted.is_stream
    assert plain.result == unaccepted.result
    assert plain.headers == unaccepted.headers


def test_silent_call_is_answered_with_json(way: str) -> None:
    found = call(way, "silent", seconds=0.01)
    assert (found.status, found.headers["content-type"]) == (200, "application/json")
    assert found.headers["content-length"] == str(len(found.body))


def test_refused_call_keeps_its_status(way: str) -> None:
    headers, body = calling("nothing")
    assert streamed(way, headers, body).messages[0]["error"]["code"] == -32602
    mismatched = streamed(way, {**headers, "Mcp-Name": "other"}, body)
    assert (mismatched.status, mismatched.is_stream) == (400, False)


@pytest.mark.parametrize("token", [1.5, True, None, {}, ["t"]])
def test_bad_token_is_refused_or_ignored(way: str, token: object) -> None:
    written = b'"progressToken": ' + dumps(token)
    headers, body = calling("steps", "t")
    found = streamed(way, headers, body.replace(b'"progressToken": "t"', written))
    assert found.messages[0]["error"]["code"] == -32602
    headers, body = calling("steps", "t", "2025-11-25")
    found = streamed(way, headers, body.replace(b'"progressToken": "t"', written))
    assert not found.is_stream
    assert found.result["structuredContent"] == {"result": 3}


@pytest.mark.parametrize("tool", ["silent", "asilent"])
def test_silent_tool_is_spoken_for(way: str, tool: str, settings: Any) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "PROGRESS_HEARTBEAT": 0.1}
    # A busy machine sends fewer of them in the same time.
    for seconds in (0.55, 2, 8, 32):
        found = call(way, tool, seconds=seconds)
        values = [each["progress"] for each in found.progress]
        if len(values) >= 3:
            break
    assert len(values) >= 3
    assert all(earlier < later for earlier, later in zip(values, values[1:], strict=False))
    assert "Running for" in found.progress[0]["message"]
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "PROGRESS_HEARTBEAT": None}
    assert not call(way, tool, seconds=0.3).is_stream


def test_heartbeat_leaves_the_reports_of_the_tool(way: str, settings: Any) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "PROGRESS_HEARTBEAT": 0.05}
    found = call(way, "steps", wait=0.2)
    # On a slow machine there may be heartbeats before the first one.
    sent = [each for each in found.progress if not each["message"].startswith("Running")]
    told = [each for each in sent if float(each["progress"]).is_integer()]
    assert [each["progress"] for each in told] == [1, 2, 3]
    # Between them, the latest is repeated with the smallest growth.
    assert len(sent) > len(told)
    assert {each["message"] for each in sent} == {"step 1", "step 2", "step 3"}


@pytest.mark.requirement("progress.rate")
@pytest.mark.parametrize("tool", ["steps", "asteps"])
def test_at_most_ten_reports_a_second_are_sent(way: str, tool: str) -> None:
    found = call(way, tool, of=300, wait=0.001)
    assert len(found.progress) <= 20
    assert found.progress[-1]["progress"] == 300


@pytest.mark.requirement("progress.grows")
def test_value_that_does_not_grow_is_left_out(settings: Any, way: str) -> None:
    def back(context: Context) -> None:
        """Go back."""
        for done in (0, 2, 1, 2, 3):
            context.progress(done)

    serve(settings, back, asynchronous=way != "wsgi", public=True)
    assert [each["progress"] for each in call(way, "back").progress] == [0, 2, 3]


@pytest.mark.parametrize("done", [float("nan"), float("inf"), "1", None])
def test_progress_that_is_no_number_is_an_error(settings: Any, way: str, done: Any) -> None:
    def wrong(context: Context) -> None:
        """Report nonsense."""
        context.progress(done)

    serve(settings, wrong, asynchronous=way != "wsgi", public=True)
    for token in ("t", None):
        assert call(way, "wrong", token).result["isError"]


def test_error_of_a_tool_ends_the_stream(settings: Any, way: str) -> None:
    def fail(context: Context) -> None:
        """Fail half way."""
        Group.objects.create(name="half")
        context.progress(1, 2)
        raise ValueError("secret")

    serve(settings, fail, asynchronous=way != "wsgi", public=True)
    found = call(way, "fail")
    assert found.is_stream
    assert found.result["isError"]
    assert b"secret" not in found.body
    assert not Group.objects.exists()


def test_call_keeps_its_caller_and_language(settings: Any) -> None:
    SEEN.clear()
    serve(settings, steps)
    with override("de"):
        found = streamed("wsgi", *calling("steps"))
    assert found.is_stream
    ((thread, language, is_known),) = SEEN
    assert (language, is_known) == ("de", True)
    assert thread is not threading.current_thread()


@pytest.mark.off_lane
@pytest.mark.parametrize("after", [0, 3])
@pytest.mark.parametrize("tool", ["writing", "awriting"])
@pytest.mark.parametrize("way", WAYS)
def test_client_that_leaves_cancels_the_call(
    way: str, tool: str, after: int, settings: Any
) -> None:
    SEEN.clear()
    serve(settings, *TOOLS, asynchronous=way != "wsgi", public=True)
    headers, body = calling(tool)
    with finished() as ended:
        if way == "wsgi":
            leave_wsgi(headers, body, after)
        else:
            asyncio.run(leave_asgi(way, headers, body, after))
        assert ended.wait(10)
    assert SEEN == [("cancelled", True)]
    assert not Group.objects.exists()
    assert record().outcome == "cancelled"


@contextmanager
def finished() -> Iterator[threading.Event]:
    """Yield an event that is set when a call has ended."""
    ended = threading.Event()

    def receive(**call: Any) -> None:
        ended.set()

    tool_call_finished.connect(receive)
    try:
        yield ended
    finally:
        tool_call_finished.disconnect(receive)


def leave_wsgi(headers: dict[str, str], body: bytes, after: int) -> None:
    """Close the response as a server does whose client has gone, after some events."""
    response: Any = Client().generic(
        "POST", "/mcp", body, content_type="application/json", headers=headers
    )
    assert response.streaming
    for _ in range(after):
        next(response.streaming_content)
    response.close()


async def leave_asgi(way: str, headers: dict[str, str], body: bytes, after: int) -> None:
    """Disconnect after some events."""
    gone = asyncio.Event()

    class Leaving(Exchange):
        async def receive(self) -> Any:
            if self.events:
                return self.events.pop(0)
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(self, message: Any) -> None:
            await super().send(message)
            if len(self.sent) > after:
                gone.set()

    scope = scope_for(headers)
    await Leaving(scope, body).run(application(way))


def test_call_in_a_transaction_stays_in_its_thread(settings: Any) -> None:
    SEEN.clear()
    serve(settings, steps, public=True)
    with transaction.atomic():
        found = streamed("wsgi", *calling("steps"))
    assert [each["progress"] for each in found.progress] == [1, 2, 3]
    assert SEEN[0][0] is threading.current_thread()


def test_threads_of_calls_are_used_again(settings: Any) -> None:
    serve(settings, steps, public=True)
    for _ in range(20):
        assert streamed("wsgi", *calling("steps")).is_stream
    used = [each for each in threading.enumerate() if each.name.startswith("mcp_bridge")]
    assert len(used) <= 8
    assert connection.in_atomic_block is False


def slow_middleware(get_response: Any) -> Any:
    """Return a middleware that cannot run on an event loop."""

    def respond(request: Any) -> Any:
        return get_response(request)

    return respond


slow_middleware.async_capable = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("tool", ["steps", "asteps"])
def test_events_pass_synchronous_middleware(settings: Any, tool: str) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.slow_middleware"]
    serve(settings, *TOOLS, asynchronous=True, public=True)
    found = call("asgi", tool, wait=0.2)
    assert [each["progress"] for each in found.progress] == [1, 2, 3]
    pauses = [later - earlier for earlier, later in zip(found.times, found.times[1:], strict=False)]
    assert all(each > 0.1 for each in pauses)


@pytest.mark.off_lane
@pytest.mark.parametrize(("way", "asynchronous"), [("wsgi", True), ("asgi", False)])
@pytest.mark.parametrize("tool", ["steps", "asteps"])
def test_view_that_does_not_fit_answers_with_json(
    settings: Any, way: str, asynchronous: bool, tool: str
) -> None:
    serve(settings, *TOOLS, asynchronous=asynchronous, public=True)
    found = call(way, tool)
    assert not found.is_stream
    assert found.result["structuredContent"] == {"result": 3}


def counting(call: Any) -> Any:
    """Query before the call."""
    Group.objects.count()
    result = yield call
    # The tool has ended, so this is ignored.
    call.context.progress(1000)
    return result


def inner(call: Any) -> Any:
    """Call another tool before this one."""
    call_named(MCPServer(), "steps", {"of": 50}, call.context) if call.tool.name != "steps" else 0
    return (yield call)


@pytest.mark.parametrize("interceptor", ["counting", "inner"])
def test_interceptors_do_not_disturb_streams(way: str, settings: Any, interceptor: str) -> None:
    settings.MCP_BRIDGE = {"INTERCEPTORS": [f"{__name__}.{interceptor}"], "ALLOW_ANONYMOUS": True}
    serve(settings, steps, writing, asynchronous=way != "wsgi", public=True)
    for _ in range(2):
        found = call(way, "writing", of=3)
        assert [each["progress"] for each in found.progress] == [0, 1, 2]
        assert found.result["structuredContent"] == {"result": "written"}
        Group.objects.all().delete()


def test_lazy_texts_and_other_values_are_sent_or_refused(way: str, settings: Any) -> None:
    def tell(context: Context, kind: str) -> str:
        """Report a value."""
        values: dict[str, Any] = {"lazy": (1, 2, gettext_lazy("Yes")), "half": (1, 2, "\ud800")}
        wrong = {"true": (True,), "decimal": (Decimal(1),), "text": ("1",), "total": (1, "2")}
        context.progress(*{**values, **wrong}[kind])
        return kind

    serve(settings, tell, asynchronous=way != "wsgi", public=True)
    for kind, message in (("lazy", "Yes"), ("half", "?")):
        assert call(way, "tell", kind=kind).progress[0]["message"] == message
    for kind in ("true", "decimal", "text", "total"):
        for token in ("t", None):
            assert call(way, "tell", token, kind=kind).result["isError"]


def test_last_report_is_sent_whatever_the_rate(way: str, settings: Any) -> None:
    def flood(context: Context, of: int) -> int:
        """Report a new total each time."""
        for number in range(1, of + 1):
            context.progress(number, number)
        return of

    serve(settings, flood, asynchronous=way != "wsgi", public=True)
    values = [each["progress"] for each in call(way, "flood", of=3000).progress]
    assert len(values) <= 20
    assert values[-1] == 3000


def test_first_report_after_a_heartbeat_is_sent(way: str, settings: Any) -> None:
    async def late(context: Context) -> None:
        """Report zero after a while."""
        await asyncio.sleep(0.3)
        context.progress(0, 10, "Starting")

    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "PROGRESS_HEARTBEAT": 0.1}
    serve(settings, late, asynchronous=way != "wsgi", public=True)
    found = call(way, "late").progress
    assert found[0]["progress"] == 0
    assert (found[-1]["message"], found[-1]["total"]) == ("Starting", 10)
    assert found[-1]["progress"] > found[0]["progress"]


def test_long_token_is_refused_or_ignored(way: str) -> None:
    for token in ("x" * 10_000, 10**40):
        found = call(way, "steps", token)
        assert not found.is_stream


@pytest.mark.parametrize("tool", ["steps", "asteps"])
def test_slot_of_a_stream_is_returned(settings: Any, tool: str) -> None:
    settings.MCP_BRIDGE = {
        **{"MAX_PROCESS_REQUESTS": 1, "ALLOW_ANONYMOUS": True},
        "PROGRESS_HEARTBEAT": 0.05,
    }
    serve(settings, *TOOLS, asynchronous=True, public=True)

    async def main() -> None:
        for name in (tool, "nothing", tool, "nothing", tool):
            headers, body = calling(name)
            found = await asyncio.wait_for(
                Exchange(scope_for(headers), body).run(application("asgi")), 5
            )
            assert found.status == 200

    asyncio.run(main())


def in_pool(context: Context) -> str:
    """Report from another thread."""
    with ThreadPoolExecutor() as pool:
        for number in range(500):
            pool.submit(context.progress, number).result()
            time.sleep(0.01)
    return "done"


async def in_sync_to_async(context: Context) -> str:
    """Report from a thread of asgiref."""
    await sync_to_async(lambda: in_pool(context))()
    return "done"


def returning_a_coroutine(context: Context) -> Any:
    """Return a coroutine, as some decorators do."""
    return awriting(context)


def lazy(context: Context) -> dict[str, Any]:
    """Return values that are made later."""

    def values() -> Iterator[int]:
        for number in range(500):
            context.progress(number)
            time.sleep(0.01)
            yield number

    return {"values": values()}


@pytest.mark.off_lane
@pytest.mark.parametrize("tool", [in_pool, in_sync_to_async, returning_a_coroutine, lazy])
def test_cancellation_reaches_any_thread(
    way: str, settings: Any, tool: Callable[..., object]
) -> None:
    serve(settings, tool, asynchronous=way != "wsgi", public=True)
    headers, body = calling(tool.__name__)
    with finished() as ended:
        if way == "wsgi":
            leave_wsgi(headers, body, 1)
        else:
            asyncio.run(leave_asgi(way, headers, body, 1))
        assert ended.wait(10)
    assert record().outcome == "cancelled"
    assert not Group.objects.exists()


@pytest.mark.off_lane
def test_transaction_of_an_async_test_is_used(settings: Any) -> None:
    async def main() -> Any:
        client = AsyncClient()
        headers, body = calling("count_groups")
        del headers["Host"], headers["Content-Type"]
        return await client.generic(
            "POST", "/mcp", body, content_type="application/json", headers=headers
        )

    def count_groups(context: Context) -> int:
        """Count."""
        context.progress(1)
        return Group.objects.count()

    serve(settings, count_groups, asynchronous=True, public=True)
    with transaction.atomic():
        Group.objects.create(name="of the test")
        response: Any = async_to_sync(main)()
        content = b"".join(async_to_sync(collect)(response))
        assert b'"structuredContent":{"result":1}' in content
        transaction.set_rollback(True)


async def collect(response: Any) -> list[bytes]:
    return [each async for each in response]
