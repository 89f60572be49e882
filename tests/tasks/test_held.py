"""Held calls as tasks: approved, refused, cancelled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.urls import path
from django.utils import timezone
from pydantic import BaseModel

from mcp_bridge import Context
from mcp_bridge.confirmation.decisions import approve, refuse
from mcp_bridge.elicitation import elicit
from mcp_bridge.models import PendingCall, ToolCallRecord
from mcp_bridge.protocol.tasks import TASKS
from mcp_bridge.records.rows import flush
from mcp_bridge.signals import tool_call_held
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.testing import MCPClient, text_of
from mcp_bridge.testing.serving import route, serve
from tests.tasks.world import begun, follower, run_queue, state

pytestmark = pytest.mark.django_db(transaction=True)


def make(name: str) -> str:
    """Make a group."""
    Group.objects.create(name=name)
    return name


@pytest.fixture
def boss(db: None) -> Any:
    return get_user_model().objects.create_superuser("boss")


@pytest.fixture
def client(settings: Any, user: Any) -> MCPClient:
    """A client without forms, whose calls are held."""
    server = serve(settings, make, confirm=True)
    route(settings, path("rpc", server.view), path("admin/", admin.site.urls))
    return MCPClient(user=user, capabilities={"extensions": {TASKS: {}}})


def test_approved_call_runs_once(client: MCPClient, boss: Any) -> None:
    key = begun(client, "make", name="a")
    [pending] = PendingCall.objects.all()
    told = state(client, key)["statusMessage"]
    assert told.startswith("waits for a person's approval at http://testserver/admin/")
    assert begun(client, "make", name="a") == key
    run_queue()
    assert not Group.objects.exists()
    assert state(client, key)["status"] == "working"
    approve(pending, boss)
    assert "statusMessage" not in state(client, key)
    run_queue()
    assert state(client, key)["result"]["structuredContent"] == {"result": "a"}
    assert Group.objects.count() == 1
    pending.refresh_from_db()
    assert pending.status == "done"


def test_refused_call_ends_with_the_reason(client: MCPClient, boss: Any) -> None:
    key = begun(client, "make", name="a")
    refuse(PendingCall.objects.get(), boss, "Not this one.")
    run_queue()
    found = state(client, key)
    assert found["status"] == "completed"
    assert found["result"]["isError"] is True
    assert "a person refused this call of make. Reason: Not this one." in text_of(found["result"])
    assert not Group.objects.exists()


def test_cancelled_call_does_not_run(client: MCPClient, boss: Any) -> None:
    key = begun(client, "make", name="a")
    client.post("tasks/cancel", taskId=key)
    approve(PendingCall.objects.get(), boss)
    run_queue()
    assert state(client, key)["status"] == "cancelled"
    assert not Group.objects.exists()


def test_other_clients_are_told_to_repeat(client: MCPClient, user: Any) -> None:
    result = MCPClient(user=user).call_tool("make", {"name": "a"})
    assert "Then repeat it with the same arguments" in text_of(result)
    assert not McpTask.objects.exists()


def test_confirmed_task_asks_only_once(settings: Any, user: Any) -> None:
    serve(settings, make, confirm=True, task=True)
    client = MCPClient(user=user, capabilities={"extensions": {TASKS: {}}, "elicitation": {}})
    asked = client.call_tool("make", {"name": "a"})
    answers = {"confirm": {"action": "accept", "content": {"confirm": True}}}
    given = {"requestState": asked["requestState"], "inputResponses": answers}
    result = client.post("tools/call", name="make", arguments={"name": "a"}, **given)
    run_queue()
    assert state(client, result["taskId"])["status"] == "completed"
    assert Group.objects.count() == 1


def test_used_approval_ends_the_task(client: MCPClient, user: Any, boss: Any) -> None:
    key = begun(client, "make", name="a")
    approve(PendingCall.objects.get(), boss)
    assert MCPClient(user=user).call_tool("make", {"name": "a"})["isError"] is False
    run_queue()
    found = state(client, key)["result"]
    assert "Its approval was used by another call" in text_of(found)
    assert Group.objects.count() == 1
    assert [each.status for each in PendingCall.objects.all()] == ["done"]


def test_expired_approval_ends_the_task(client: MCPClient, boss: Any) -> None:
    key = begun(client, "make", name="a")
    approve(PendingCall.objects.get(), boss)
    PendingCall.objects.update(decided_at=timezone.now() - timedelta(days=1))
    run_queue()
    assert "Its approval has expired" in text_of(state(client, key)["result"])
    assert not Group.objects.exists()


@pytest.mark.parametrize("end", ["deleted", "confirmed"])
def test_pending_call_that_is_gone_ends_the_task(client: MCPClient, user: Any, end: str) -> None:
    key = begun(client, "make", name="a")
    if end == "deleted":
        PendingCall.objects.get().delete()
    else:
        asking = MCPClient(user=user, capabilities={"elicitation": {}})
        asked = asking.call_tool("make", {"name": "a"})
        answers = {"confirm": {"action": "accept", "content": {"confirm": True}}}
        given = {"requestState": asked["requestState"], "inputResponses": answers}
        asking.post("tools/call", name="make", arguments={"name": "a"}, **given)
    state(client, key)
    run_queue()
    found = state(client, key)
    assert found["status"] == "completed"
    assert "Its approval" in text_of(found["result"])
    assert Group.objects.count() == (end == "confirmed")


def test_decision_before_the_task_is_stored_runs_it(client: MCPClient, boss: Any) -> None:
    def decide(pending: PendingCall, **others: Any) -> None:
        approve(pending, boss)

    tool_call_held.connect(decide)
    try:
        key = begun(client, "make", name="a")
    finally:
        tool_call_held.disconnect(decide)
    run_queue()
    assert state(client, key)["status"] == "completed"
    assert Group.objects.count() == 1


def test_approved_tool_may_ask(settings: Any, user: Any, boss: Any) -> None:
    class Answer(BaseModel):
        name: str

    def make_asked(context: Context) -> str:
        """Make a group with a name that the user gives."""
        name = elicit(context, "Which name?", Answer).name
        Group.objects.create(name=name)
        return name

    settings.MCP_BRIDGE = {"FOUR_EYES": True}
    serve(settings, make_asked, confirm=True)
    client = follower(user)
    key = begun(client, "make_asked")
    approve(PendingCall.objects.get(), boss)
    run_queue()
    [question] = state(client, key)["inputRequests"]
    answer = {question: {"action": "accept", "content": {"name": "b"}}}
    client.post("tasks/update", taskId=key, inputResponses=answer)
    run_queue()
    assert state(client, key)["result"]["structuredContent"] == {"result": "b"}
    assert PendingCall.objects.count() == 1


def test_held_and_refused_tasks_are_on_record(client: MCPClient, user: Any) -> None:
    key = begun(client, "make", name="a")
    flush()
    [record] = ToolCallRecord.objects.all()
    assert (record.outcome, record.error_code) == ("refused", "unconfirmed")
    type(user).objects.filter(pk=user.pk).update(is_active=False)
    PendingCall.objects.get().delete()
    state(client, key)
    run_queue()
    flush()
    codes = [each.error_code for each in ToolCallRecord.objects.order_by("pk")]
    assert codes == ["unconfirmed", "forbidden"]
