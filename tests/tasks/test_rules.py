"""The rules of calls hold for tasks: rates, scopes, results, interceptors and the queue."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.urls import path

from mcp_bridge import Context
from mcp_bridge.access import AccessPolicy
from mcp_bridge.exceptions import InputRequired
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol.errors import InvalidParamsError
from mcp_bridge.protocol.input_requests import CreateMessageRequest
from mcp_bridge.registry.registry import Snapshot, registry
from mcp_bridge.server.server import MCPServer
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.testing import MCPClient, MCPError, text_of
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from mcp_bridge.views import MCPView
from tests.support.serving import set_tool
from tests.tasks.world import CAPABILITIES, begun, ended, follower, run_queue, run_waiting, state

# The table of the queue.
QUEUE = "django_tasks_database_dbtaskresult"


def add(a: int) -> int:
    """Add one."""
    return a + 1


def test_call_counts_once(settings: Any, user: Any) -> None:
    serve(settings, add, task=True, throttle="2/hour")
    client = follower(user)
    for _ in range(2):
        assert ended(client, "add", a=1)["status"] == "completed"
    assert text_of(client.call_tool("add", {"a": 1})).startswith("Too many calls: add")
    assert McpTask.objects.count() == 2


def test_lost_scope_ends_the_task(settings: Any, user: Any) -> None:
    settings.MCP_BRIDGE = {"SCOPES": {"news": "News"}}
    serve(settings, add, task=True, scopes="news")
    token, secret = Token.objects.issue(user=user, name="t", scopes=["news"])
    client = MCPClient(token=secret, capabilities=CAPABILITIES)
    key = begun(client, "add", a=1)
    Token.objects.filter(pk=token.pk).update(scope="")
    run_waiting()
    found = state(follower(user), key)
    assert found["status"] == "completed"
    assert found["result"]["isError"] is True


def test_results_are_stored_as_in_a_request(settings: Any, user: Any) -> None:
    def much(size: int) -> str:
        """Return a long text."""
        return "x" * size

    def several() -> Iterator[str]:
        """Yield texts."""
        yield from ("a\0", "b")

    def odd() -> str:
        """Return half a character."""
        return "\ud83d"

    settings.MCP_BRIDGE = {"MAX_RESULT_BYTES": 5000}
    serve(settings, much, several, odd, task=True)
    client = follower(user)
    for name, arguments in (("much", {"size": 6000}), ("several", {}), ("odd", {})):
        direct = MCPClient(user=user).call_tool(name, arguments)
        found = ended(client, name, **arguments)
        assert found["status"] == "completed"
        assert found["result"]["isError"] == direct["isError"]
        if not direct["isError"]:
            assert found["result"]["content"] == direct["content"]
    # A line of a text that only JSON can have.
    assert ended(client, "much", size=3)["result"]["structuredContent"] == {"result": "xxx"}


def test_arguments_come_as_they_were_sent(settings: Any, user: Any) -> None:
    def echo(value: Any) -> Any:
        """Return the value."""
        return {"got": value}

    serve(settings, echo, task=True)
    for value in ("a\u2028b", {"b": 1, "a": [1.5, None]}, 2**60, "é", [], False):
        found = ended(follower(user), "echo", value=value)
        assert found["result"]["structuredContent"] == {"got": value}


@pytest.mark.django_db(transaction=True)
def test_failed_task_keeps_what_it_had_written(settings: Any, user: Any) -> None:
    def half(name: str) -> None:
        """Write, and fail."""
        Group.objects.create(name=name)
        raise RuntimeError

    serve(settings, half, task=True)
    begun(follower(user), "half", name="kept")
    run_queue()
    assert Group.objects.filter(name="kept").exists()


@pytest.mark.django_db(transaction=True)
def test_queue_that_is_down_fails_the_task(settings: Any, user: Any, caplog: Any) -> None:
    serve(settings, add, task=True)
    client = follower(user)
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {QUEUE} RENAME TO gone")
    try:
        with pytest.raises(MCPError) as raised:
            client.call_tool("add", {"a": 1})
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE gone RENAME TO {QUEUE}")
    assert raised.value.error["code"] == -32603
    assert "could not be queued" in raised.value.error["message"]
    [task] = McpTask.objects.all()
    assert task.status == "failed"
    assert task.error["message"] == raised.value.error["message"]
    assert not ToolCallRecord.objects.filter(outcome="succeeded").exists()


@pytest.mark.django_db(transaction=True)
def test_queue_runs_what_was_accepted(settings: Any, user: Any) -> None:
    serve(settings, add, task=True)
    client = follower(user)
    key = begun(client, "add", a=1)
    run_queue()
    assert state(client, key)["result"]["structuredContent"] == {"result": 2}


class Doubling:
    """An interceptor that doubles the argument of each call."""

    def call(self, call: Any) -> Any:
        result = yield call._replace(sent={"a": call.sent["a"] * 2})
        return result


def test_interceptors_run_around_the_run(settings: Any, user: Any) -> None:
    settings.MCP_BRIDGE = {"INTERCEPTORS": [f"{__name__}.Doubling"]}
    serve(settings, add, task=True)
    assert ended(follower(user), "add", a=5)["result"]["structuredContent"] == {"result": 11}


def test_tool_that_decides_wrongly_is_an_error(settings: Any, user: Any) -> None:
    serve(settings, add, task=lambda call: 1 / 0)
    client = follower(user)
    assert "the site's log says why" in text_of(client.call_tool("add", {"a": 1}))
    assert not McpTask.objects.exists()


def test_sleeping_tool_needs_no_client(settings: Any, user: Any) -> None:
    def rest(context: Context) -> str:
        """Rest."""
        context.progress(1, 2, "half")
        context.sleep(0.01)
        return "rested"

    serve(settings, rest, task=True)
    found = ended(follower(user), "rest")
    assert found["result"]["structuredContent"] == {"result": "rested"}
    assert found["statusMessage"] == "1 of 2: half"
    assert MCPClient(user=user).call_tool("rest")["structuredContent"] == {"result": "rested"}


class Doubled:
    """An interceptor that doubles the argument in place, and looks at the result."""

    def call(self, call: Any) -> Any:
        call.sent["a"] *= 2
        result = yield call
        assert result.content
        return result


def test_interceptors_see_the_run_once(settings: Any, user: Any) -> None:
    settings.MCP_BRIDGE = {"INTERCEPTORS": [f"{__name__}.Doubled"]}
    serve(settings, add, task=True)
    assert ended(follower(user), "add", a=5)["result"]["structuredContent"] == {"result": 11}


@pytest.mark.parametrize("how", ["asks", "exits"])
def test_deciding_function_cannot_end_more(settings: Any, user: Any, how: str) -> None:
    def decide(call: Any) -> bool:
        raise (InputRequired({}) if how == "asks" else SystemExit(1))

    serve(settings, add, task=decide)
    assert "the site's log says why" in text_of(follower(user).call_tool("add", {"a": 1}))


def test_coroutine_may_decide(settings: Any, user: Any) -> None:
    async def decide(call: Any) -> bool:
        return call.arguments["a"] > 1

    serve(settings, add, task=decide)
    client = follower(user)
    assert client.call_tool("add", {"a": 1})["structuredContent"] == {"result": 2}
    assert begun(client, "add", a=2)


def test_what_cannot_be_stored_is_an_error(settings: Any, user: Any) -> None:
    def odd(how: str) -> str:
        """Ask or fail with what is not JSON."""
        if how == "asks":
            message = {"role": "user", "content": {"type": "text", "text": object()}}
            raise InputRequired({"x": CreateMessageRequest([message], 10)})
        error = InvalidParamsError("no")
        error.data = datetime.now() if how == "data" else {"x": "\ud83d"}
        raise error

    serve(settings, odd, task=True)
    client = MCPClient(user=user, capabilities={**CAPABILITIES, "sampling": {}})
    for how, status in (("asks", "completed"), ("data", "failed"), ("text", "failed")):
        found = ended(client, "odd", how=how)
        assert found["status"] == status, found
        assert status == "completed" or found["error"]["code"] == -32603


def test_task_cannot_wait_for_no_answer(settings: Any, user: Any) -> None:
    def again() -> str:
        """Ask for nothing."""
        raise InputRequired({}, tool_state=1)

    serve(settings, again, task=True)
    found = ended(follower(user), "again")
    assert found["status"] == "completed"
    assert found["result"]["isError"] is True


def test_tool_that_ends_the_process_fails(settings: Any, user: Any) -> None:
    def stop() -> None:
        """Interrupt."""
        raise KeyboardInterrupt

    serve(settings, stop, task=True)
    client = follower(user)
    key = begun(client, "stop")
    with pytest.raises(KeyboardInterrupt):
        run_waiting()
    assert state(client, key)["status"] == "failed"


def test_disabled_tool_leaves_its_tasks_readable(settings: Any, user: Any) -> None:
    serve(settings, add, task=True)
    client = follower(user)
    key = begun(client, "add", a=1)
    set_tool("add", enabled=False)
    run_waiting()
    found = state(client, key)
    assert "may no longer use the tool" in text_of(found["result"])


@pytest.mark.django_db(transaction=True)
def test_unusable_queue_fails_the_task(settings: Any, user: Any) -> None:
    serve(settings, add, task=True)
    client = follower(user)
    sys.modules.pop("mcp_bridge.tasks.jobs", None)
    settings.MCP_BRIDGE = {"TASK_BACKEND": "nowhere"}
    with pytest.raises(MCPError, match="could not be queued"):
        client.call_tool("add", {"a": 1})
    assert [each.status for each in McpTask.objects.all()] == ["failed"]


@pytest.mark.parametrize("own", ["policy", "snapshot"])
def test_view_with_its_own_server_has_no_tasks(settings: Any, user: Any, own: str) -> None:
    class Policy(AccessPolicy):
        pass

    class View(MCPView):
        def get_server(self) -> MCPServer:
            if own == "policy":
                return MCPServer(policy=Policy())
            tools = [replace(each) for each in registry.snapshot.tools.values()]
            return MCPServer(snapshot=Snapshot(tools))

    serve(settings, add, task=True)
    settings.ROOT_URLCONF.urlpatterns.insert(0, path("own", View.as_view()))
    client = follower(user, path="/own")
    assert client.call_tool("add", {"a": 1})["structuredContent"] == {"result": 2}
    serve(settings, add, task="required")
    settings.ROOT_URLCONF.urlpatterns.insert(0, path("own", View.as_view()))
    with pytest.raises(MCPError, match="io.modelcontextprotocol/tasks"):
        follower(user, path="/own").call_tool("add", {"a": 1})
