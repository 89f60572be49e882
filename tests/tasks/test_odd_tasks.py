"""Tasks of tools that were changed since, of odd credentials, and of odd sites."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.urls import get_script_prefix, path, reverse, set_script_prefix
from django.utils import timezone
from oauth2_provider.models import get_access_token_model, get_application_model
from pydantic import BaseModel, SecretStr

from mcp_bridge import Context
from mcp_bridge.confirmation.decisions import approve
from mcp_bridge.elicitation import elicit
from mcp_bridge.exceptions import InputRequired
from mcp_bridge.models import PendingCall, ToolCallRecord
from mcp_bridge.protocol.input_requests import FormElicitRequest
from mcp_bridge.protocol.tasks import TASKS
from mcp_bridge.records.rows import flush
from mcp_bridge.tasks.accepting import MOST_OPEN
from mcp_bridge.tasks.methods import Followed
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.testing import MCPClient, text_of
from mcp_bridge.testing.serving import route, serve
from tests.support.administrator import Administrator
from tests.tasks.world import begun, ended, follower, run_queue, run_waiting, state

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.off_tasks]
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


def look() -> str:
    """Look."""
    return "seen"


def look_again() -> str:
    """Look again."""
    return "seen"


def unlock(word: SecretStr) -> str:
    """Unlock."""
    return "open"


def unlock_in_clear(word: str = "") -> str:
    """Unlock."""
    return "open"


look_again.__name__, unlock_in_clear.__name__ = "look", "unlock"


class Name(BaseModel):
    name: str


def ask(context: Context) -> str:
    """Ask."""
    return elicit(context, "Name?", Name).name


@pytest.fixture
def holder(user: Any) -> MCPClient:
    """A client whose calls are held for a person."""
    return MCPClient(user=user, capabilities={"extensions": {TASKS: {}}})


def serve_admin(settings: Any, *functions: Any, **options: Any) -> None:
    server = serve(settings, *functions, **options)
    route(settings, path("rpc", server.view), path("admin/", admin.site.urls))


@pytest.mark.parametrize("now", [unlock_in_clear, look])
def test_changed_tool_reveals_no_secret_arguments(settings: Any, user: Any, now: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "redacted"}}
    serve(settings, unlock, task=True)
    key = begun(follower(user), "unlock", word="hunter2")
    serve_admin(settings, now, task=True)
    page = Administrator().browser.get(f"/admin/mcp_bridge_tasks/mcptask/{key}/change/")
    assert page.status_code == 200
    assert "hunter2" not in page.content.decode()
    run_waiting()
    flush()
    assert [each.arguments for each in ToolCallRecord.objects.all()] == ["{}"]


@pytest.mark.parametrize("now", [look_again, unlock])
def test_held_task_of_a_changed_tool_ends(settings: Any, holder: MCPClient, now: Any) -> None:
    serve_admin(settings, look, confirm=True)
    key = begun(holder, "look")
    assert state(holder, key)["statusMessage"].startswith("waits for a person's approval")
    serve_admin(settings, now, confirm=True)
    call_command("mcp_tasks", "expire")
    run_queue()
    found = state(holder, key)
    assert found["status"] == "completed"
    assert text_of(found["result"]).startswith("Nothing was run: ")


def test_subscriber_sees_the_end_of_deleted_approvals(settings: Any, holder: MCPClient) -> None:
    serve_admin(settings, look, confirm=True)
    key = begun(holder, "look")
    user = get_user_model().objects.get(pk=McpTask.objects.get().user_id)
    followed = Followed([key], Context(user=user))
    assert followed.changed() == []
    PendingCall.objects.all().delete()
    [queued] = followed.changed()
    assert "statusMessage" not in queued
    run_queue()
    [over] = followed.changed()
    assert "request was deleted" in text_of(over["result"])


def test_approval_for_other_arguments_is_told(settings: Any, holder: MCPClient) -> None:
    serve_admin(settings, look, confirm=True)
    key = begun(holder, "look")
    approve(PendingCall.objects.get(), get_user_model().objects.create_superuser("boss"))
    PendingCall.objects.update(key="another")
    run_waiting()
    assert "or is for other arguments" in text_of(state(holder, key)["result"])


def test_address_of_a_pending_call_may_be_long(settings: Any, holder: MCPClient) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    serve_admin(settings, look, confirm=True)
    holder.headers["Host"] = f"{'a' * 600}.example"
    assert len(state(holder, begun(holder, "look"))["statusMessage"]) == 500


def test_client_without_a_user_keeps_its_tasks(settings: Any) -> None:
    serve(settings, look, task=True, public=True)
    application = get_application_model().objects.create(
        name="service", authorization_grant_type="client-credentials"
    )

    def token(text: str) -> Any:
        ends = timezone.now() + timedelta(hours=1)
        given = {"application": application, "scope": "read", "expires": ends}
        return get_access_token_model().objects.create(token=text, **given)

    first, client = token("first"), follower(None)
    client.http.force_authenticate(None, first)
    key = begun(client, "look")
    client.http.force_authenticate(None, token("second"))
    first.delete()
    run_waiting()
    assert state(client, key)["result"]["isError"] is False


def test_credentials_of_unknown_kinds_run_at_once(settings: Any, user: Any) -> None:
    class Claimed:
        claims = {"exp": 9999999999}

    serve(settings, look, task=True)
    client = follower(user)
    for _ in range(MOST_OPEN):
        begun(client, "look")
    client.http.force_authenticate(user, Claimed())
    assert client.call_tool("look", {})["isError"] is False


def test_sites_without_time_zones_have_tasks(settings: Any, user: Any) -> None:
    from mcp_bridge.ext.jwt.authentication import AccessToken as JWTToken

    settings.USE_TZ = False
    serve(settings, look, task=True)
    expires = (datetime.now(UTC) + timedelta(minutes=10)).timestamp()
    limits = frozenset({"x"}), frozenset({"read"})
    client = follower(user)
    client.http.force_authenticate(user, JWTToken({"sub": "1", "exp": expires}, "x", *limits))
    found = ended(client, "look")
    assert found["result"]["isError"] is False
    age = datetime.now(UTC) - datetime.fromisoformat(found["createdAt"])
    assert timedelta(0) <= age < timedelta(minutes=1)


@pytest.mark.parametrize("zones", [True, False])
def test_confirmed_call_becomes_a_task_later(settings: Any, user: Any, zones: bool) -> None:
    settings.USE_TZ = zones
    serve(settings, ask, confirm=True, task=lambda call: bool(call.context.input_responses))
    client = follower(user)
    asked = client.call_tool("ask", {})
    for answer in ({"confirm": True}, {"name": "x"}):
        [key] = asked["inputRequests"]
        given = {key: {"action": "accept", "content": answer}}
        state_of = {"requestState": asked["requestState"], "inputResponses": given}
        asked = client.post("tools/call", name="ask", arguments={}, **state_of)
    run_waiting()
    result = state(client, asked["taskId"])["result"]
    assert result["structuredContent"] == {"result": "x"}


def test_question_whose_key_is_no_text_fails(settings: Any, user: Any) -> None:
    def wonder() -> str:
        """Wonder."""
        raise InputRequired({"\ud83d": FormElicitRequest("Name?", FORM)})

    serve(settings, wonder, task=True)
    assert ended(follower(user), "wonder")["result"]["isError"] is True


@pytest.fixture
def prefix() -> Iterator[None]:
    """A site below /app."""
    before = get_script_prefix()
    set_script_prefix("/app/")
    yield
    set_script_prefix(before)


def test_addresses_have_the_prefix_of_the_site(settings: Any, user: Any, prefix: None) -> None:
    def where(context: Context) -> str:
        """Where."""
        return context.absolute_url(reverse("there"))

    server = serve(settings, where, task=True)
    route(settings, path("rpc", server.view), path("there", lambda request: None, name="there"))
    key = begun(follower(user), "where")
    set_script_prefix("/")
    run_waiting()
    result = McpTask.objects.get(pk=key).result
    assert result["structuredContent"] == {"result": "http://testserver/app/there"}


def test_task_cancelled_as_its_run_begins(settings: Any, user: Any, caplog: Any) -> None:
    serve(settings, look, task=True)
    client = follower(user)
    key = begun(client, "look")
    began = []

    def cancel(execute: Any, sql: str, *rest: Any) -> Any:
        result = execute(sql, *rest)
        if sql.startswith("UPDATE") and '"started_at" = ' in sql and not began:
            began.append(key)
            client.post("tasks/cancel", taskId=key)
        return result

    with connection.execute_wrapper(cancel):
        run_waiting()
    assert began
    assert state(client, key)["status"] == "cancelled"
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


def test_ids_are_no_options(settings: Any, user: Any) -> None:
    serve(settings, look, task=True)
    assert not any("-" in begun(follower(user), "look") for _ in range(20))
