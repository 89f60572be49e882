"""Held calls as tasks: approved, refused, cancelled."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.urls import path

from mcp_bridge.confirmation.decisions import approve, refuse
from mcp_bridge.models import PendingCall
from mcp_bridge.protocol.tasks import TASKS
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.testing import MCPClient, text_of
from mcp_bridge.testing.serving import route, serve
from tests.tasks.world import begun, run_queue, state

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
