"""Calls that become tasks, and are looked at, answered and cancelled."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.utils import timezone
from pydantic import BaseModel

from mcp_bridge import Context, ToolError
from mcp_bridge.elicitation import elicit
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol.errors import InvalidParamsError
from mcp_bridge.protocol.tasks import TASKS
from mcp_bridge.tasks.methods import Followed
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.tasks.queueing import settle
from mcp_bridge.testing import MCPClient, MCPError, text_of
from mcp_bridge.testing.serving import serve
from tests.tasks.world import CAPABILITIES, begun, ended, follower, run_waiting, state


class Answer(BaseModel):
    name: str


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


async def later(a: int) -> int:
    """Add one, in a coroutine."""
    return a + 1


def fail(how: str) -> str:
    """Fail."""
    if how == "tool":
        raise ToolError("Not today.")
    if how == "protocol":
        raise InvalidParamsError("Never.")
    raise RuntimeError("secret")


def ask(context: Context, times: int = 1) -> str:
    """Ask so many questions."""
    return ", ".join(elicit(context, f"Question {n}?", Answer).name for n in range(times))


@pytest.fixture
def client(settings: Any, user: Any) -> MCPClient:
    serve(settings, add, later, fail, ask, task=True)
    return follower(user)


@pytest.mark.requirement("tasks.create", "tasks.durable", "tasks.get")
def test_call_becomes_a_task_and_completes(client: MCPClient) -> None:
    found = ended(client, "add", a=1)
    assert found["status"] == "completed"
    assert found["result"]["structuredContent"] == {"result": 2}
    assert found["result"]["isError"] is False
    assert (found["ttlMs"], found["pollIntervalMs"]) == (3_600_000, 1000)
    assert ended(client, "later", a=2)["result"]["structuredContent"] == {"result": 3}


@pytest.mark.requirement("tasks.negotiated", "tasks.undeclared")
def test_client_without_the_extension_gets_the_result(client: MCPClient, user: Any) -> None:
    for capabilities in ({}, {"extensions": {}}, {"extensions": {"com.example/other": {}}}):
        plain = MCPClient(user=user, capabilities=capabilities)
        assert plain.call_tool("add", {"a": 1})["structuredContent"] == {"result": 2}
        with pytest.raises(MCPError) as raised:
            plain.post("tasks/get", taskId="x")
        assert raised.value.error["code"] == -32021
        needed = raised.value.error["data"]["requiredCapabilities"]
        assert needed == {"extensions": {TASKS: {}}}


def test_legacy_client_gets_the_result(client: MCPClient, user: Any) -> None:
    legacy = MCPClient(user=user, revision="2025-11-25", capabilities=CAPABILITIES)
    assert legacy.call_tool("add", {"a": 1})["structuredContent"] == {"result": 2}
    with pytest.raises(MCPError, match="Method not found"):
        legacy.post("tasks/get", taskId="x")


@pytest.mark.requirement("tasks.declared")
def test_extension_is_declared_to_modern_clients(client: MCPClient, user: Any) -> None:
    declared = client.post("server/discover")["capabilities"]
    assert declared["extensions"] == {TASKS: {}}
    legacy = MCPClient(user=user, revision="2025-11-25")
    begun = legacy.post("initialize", protocolVersion="2025-11-25")
    assert "extensions" not in begun["capabilities"]


@pytest.mark.requirement("tasks.failed")
@pytest.mark.parametrize("how", ["tool", "broken", "protocol"])
def test_failures_are_told_apart(client: MCPClient, how: str) -> None:
    found = ended(client, "fail", how=how)
    if how == "protocol":
        assert found["status"] == "failed"
        assert found["error"] == {"code": -32602, "message": "Never."}
        return
    assert found["status"] == "completed"
    assert found["result"]["isError"] is True
    assert "secret" not in json.dumps(found)
    assert (text_of(found["result"]) == "Not today.") is (how == "tool")


def test_invalid_arguments_make_no_task(client: MCPClient) -> None:
    result = client.call_tool("add", {"a": "x"})
    assert result["isError"] is True
    assert not McpTask.objects.exists()


@pytest.mark.requirement("tasks.keys", "tasks.partial")
def test_questions_are_asked_and_answered(client: MCPClient) -> None:
    key = begun(client, "ask", times=2)
    run_waiting()
    names = []
    for n in range(2):
        found = state(client, key)
        assert found["status"] == "input_required"
        [(name, request)] = found["inputRequests"].items()
        assert request["params"]["message"] == f"Question {n}?"
        names.append(name)
        answer = {"action": "accept", "content": {"name": f"Ada {n}"}}
        client.post("tasks/update", taskId=key, inputResponses={name: answer, "other": 1})
        assert state(client, key)["status"] == "working"
        run_waiting()
    assert len(set(names)) == 2
    assert state(client, key)["result"]["structuredContent"] == {"result": "Ada 0, Ada 1"}


def test_answers_to_unknown_questions_change_nothing(client: MCPClient) -> None:
    key = begun(client, "ask")
    run_waiting()
    before = state(client, key)
    answer = {"other": {"action": "accept", "content": {}}}
    assert client.post("tasks/update", taskId=key, inputResponses=answer)["resultType"]
    assert state(client, key)["lastUpdatedAt"] == before["lastUpdatedAt"]


def test_bad_answer_is_refused_and_changes_nothing(client: MCPClient) -> None:
    key = begun(client, "ask")
    run_waiting()
    [name] = state(client, key)["inputRequests"]
    for answer in (1, {"action": "maybe"}, {"action": "accept", "content": []}):
        with pytest.raises(MCPError) as raised:
            client.post("tasks/update", taskId=key, inputResponses={name: answer})
        assert raised.value.error["code"] == -32602
    for wrong in (None, [], "x"):
        with pytest.raises(MCPError, match="inputResponses must be an object"):
            client.post("tasks/update", taskId=key, inputResponses=wrong)
    assert state(client, key)["status"] == "input_required"


def test_answer_that_does_not_fit_asks_again(client: MCPClient) -> None:
    key = begun(client, "ask")
    run_waiting()
    [name] = state(client, key)["inputRequests"]
    wrong = {"action": "accept", "content": {"name": 7}}
    client.post("tasks/update", taskId=key, inputResponses={name: wrong})
    run_waiting()
    [again] = state(client, key)["inputRequests"]
    assert again != name
    right = {"action": "accept", "content": {"name": "Ada"}}
    client.post("tasks/update", taskId=key, inputResponses={again: right})
    run_waiting()
    assert state(client, key)["status"] == "completed"


@pytest.mark.requirement("tasks.idempotent")
def test_cancelled_task_stays_cancelled(client: MCPClient) -> None:
    key = begun(client, "add", a=1)
    for _ in range(2):
        assert client.post("tasks/cancel", taskId=key)["resultType"] == "complete"
        run_waiting()
        assert state(client, key)["status"] == "cancelled"
    done = ended(client, "add", a=1)["taskId"]
    client.post("tasks/cancel", taskId=done)
    client.post("tasks/update", taskId=done, inputResponses={"x": {}})
    assert state(client, done)["status"] == "completed"


@pytest.mark.requirement("tasks.unknown", "tasks.bound")
def test_unknown_tasks_are_alike(client: MCPClient) -> None:
    mine = begun(client, "add", a=1)
    other = follower(get_user_model().objects.create_user("eve"))
    gone = begun(client, "add", a=1)
    McpTask.objects.filter(pk=gone).update(expires_at=timezone.now() - timedelta(seconds=1))
    texts = set()
    for who, key in ((other, mine), (client, gone), (client, "x"), (client, "y" * 10_000)):
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(MCPError) as raised:
                who.post(method, taskId=key, inputResponses={})
            texts.add(json.dumps(raised.value.error))
    assert len(texts) == 1
    for key in (7, None, ["x"]):
        with pytest.raises(MCPError, match="taskId must be a string"):
            client.post("tasks/get", taskId=key)
    assert state(client, mine)["status"] == "working"


@pytest.mark.requirement("tasks.header")
def test_header_must_name_the_task(client: MCPClient) -> None:
    key = begun(client, "add", a=1)
    message = client.message("tasks/get", taskId=key)
    for sent, status in ((key, 200), ("other", 400), (None, 200)):
        headers = {**client.mirrored(message), "Mcp-Name": sent}
        response = client.send(json.dumps(message).encode(), headers)
        assert response.status_code == status
    assert json.loads(response.content)["result"]["taskId"] == key


@pytest.mark.requirement("tasks.removed")
def test_removed_methods_are_unknown(client: MCPClient) -> None:
    for method in ("tasks/list", "tasks/result"):
        with pytest.raises(MCPError, match="Method not found"):
            client.post(method, taskId="x")
    message = client.message("tools/call", name="add", arguments={"a": 1}, task={"ttl": 1})
    client.send(json.dumps(message).encode(), client.mirrored(message))
    assert client.messages()[-1]["result"]["resultType"] == "task"


@pytest.mark.requirement("tasks.required")
def test_required_task_runs_never_without(settings: Any, user: Any) -> None:
    ran = []
    serve(settings, lambda: ran.append(1), name="work", description="Work.", task="required")
    for revision in ("2026-07-28", "2025-06-18"):
        with pytest.raises(MCPError) as raised:
            MCPClient(user=user, revision=revision).call_tool("work")
        assert raised.value.error["code"] == -32021
    assert not ran
    assert ended(follower(user), "work")["status"] == "completed"
    assert ran == [1]


def test_function_decides_for_each_call(settings: Any, user: Any) -> None:
    serve(settings, add, task=lambda call: call.arguments["a"] > 10)
    client = follower(user)
    assert client.call_tool("add", {"a": 1})["structuredContent"] == {"result": 2}
    assert ended(client, "add", a=11)["result"]["structuredContent"] == {"result": 12}


def test_question_may_come_before_the_task(settings: Any, user: Any) -> None:
    serve(settings, ask, task=lambda call: bool(call.context.input_responses))
    client = follower(user)
    asked = client.call_tool("ask")
    [name] = asked["inputRequests"]
    answers = {name: {"action": "accept", "content": {"name": "Ada"}}}
    given = {"requestState": asked["requestState"], "inputResponses": answers}
    result = client.post("tools/call", name="ask", arguments={}, **given)
    assert result["resultType"] == "task"
    run_waiting()
    assert state(client, result["taskId"])["result"]["structuredContent"] == {"result": "Ada"}


def test_changed_world_runs_nothing(settings: Any, user: Any) -> None:
    def remove() -> str:
        """Remove."""
        Group.objects.create(name="ran")
        return "done"

    serve(settings, remove, task=True)
    client = follower(user)
    keys = [begun(client, "remove")]
    serve(settings, remove, task=True, description="Another.")
    run_waiting()
    serve(settings, add, task=True)
    keys.append(begun(client, "add", a=1))
    serve(settings, remove, task=True)
    run_waiting()
    get_user_model().objects.filter(pk=user.pk).update(is_active=False)
    keys.append(begun(client, "remove"))
    run_waiting()
    for key in keys:
        found = state(client, key)
        assert found["status"] == "completed"
        assert found["result"]["isError"] is True
        assert text_of(found["result"]).startswith("Nothing was run: ")
    assert not Group.objects.exists()


def test_each_run_has_a_record(client: MCPClient) -> None:
    ended(client, "add", a=1)
    [record] = ToolCallRecord.objects.all()
    assert (record.tool, record.outcome, record.user_name) == ("add", "succeeded", "ada")
    assert record.client_name == "mcp_bridge.testing"


def test_one_worker_runs_a_task(client: MCPClient) -> None:
    key = begun(client, "add", a=1)
    McpTask.objects.filter(pk=key).update(started_at=timezone.now(), seen_at=timezone.now())
    run_waiting()
    assert state(client, key)["status"] == "working"
    silent = timezone.now() - timedelta(minutes=6)
    McpTask.objects.filter(pk=key).update(seen_at=silent)
    found = state(client, key)
    assert found["status"] == "failed"
    assert found["error"]["code"] == -32603


def test_expired_task_of_a_dead_worker_stays_quiet(client: MCPClient, caplog: Any) -> None:
    key = begun(client, "add", a=1)
    silent = timezone.now() - timedelta(minutes=6)
    McpTask.objects.update(started_at=silent, seen_at=silent, expires_at=timezone.now())
    context = Context(user=get_user_model().objects.get(), auth=None)
    followed = Followed([key], context)
    assert followed.changed() == []
    settle(McpTask.objects.get())
    assert not caplog.records
    McpTask.objects.update(expires_at=timezone.now() + timedelta(minutes=6))
    for _ in range(2):
        assert state(client, key)["status"] == "failed"
    [logged] = caplog.records
    assert "The worker of add (" in logged.getMessage()


def test_caller_has_a_limit_of_tasks(client: MCPClient, settings: Any) -> None:
    for _ in range(100):
        begun(client, "add", a=1)
    result = client.call_tool("add", {"a": 1})
    assert result["isError"] is True
    assert "100 tasks of this caller" in text_of(result)


def test_task_that_is_over_keeps_no_arguments(client: MCPClient) -> None:
    key = begun(client, "add", a=1)
    assert McpTask.objects.get(pk=key).arguments == {"a": 1}
    run_waiting()
    assert McpTask.objects.get(pk=key).arguments is None
