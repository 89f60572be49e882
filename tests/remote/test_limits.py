"""Remote servers that do more than they should: what bounds them, and what others notice."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from django.db import connections

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol import CallToolResult, TextContent
from mcp_bridge.remote import breaker
from mcp_bridge.remote.calling import MAX_MESSAGE
from mcp_bridge.remote.definitions import MAX_BYTES
from mcp_bridge.remote.encryption import sealed
from mcp_bridge.remote.gateway import gateway_of
from mcp_bridge.remote.models import RemoteServer
from mcp_bridge.remote.sync import SyncError, sync
from mcp_bridge.testing import MCPClient, text_of
from tests.remote.desk import FORECAST, Desk, connect, serve_desk, text, tool
from tests.remote.test_credentials import KEYS
from tests.remote.upstreams.dropping import DROPPING
from tests.remote.upstreams.slow import SLOW
from tests.remote.upstreams.writing import Repeating, begin, chunk, event, stream
from tests.support.services import Received, send

pytestmark = pytest.mark.django_db


def call(client: MCPClient, **params: Any) -> dict[str, Any]:
    return client.call_tool("weather_forecast", {"city": "Bonn"}, **params)


def talking(received: Received, handler: BaseHTTPRequestHandler) -> None:
    """Write comments for ever."""
    begin(handler)
    Repeating(chunk(b":\n\n"), 0.05)(handler)


def test_time_limit_ends_a_call_of_a_talkative_server(
    settings: Any, desk: Desk, client: MCPClient
) -> None:
    serve_desk(settings, desk)
    desk.raw = talking
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "CALL_TIMEOUT": 0.5}
    assert "stopped after its time limit" in text_of(call(client))


def test_fetching_from_a_talkative_server_ends(settings: Any, desk: Desk) -> None:
    server = connect(settings, desk)
    desk.raw = talking
    server.whole_call_s = 1
    with pytest.raises(SyncError, match="did not answer in time"):
        sync(server)


def test_messages_of_progress_are_cut(settings: Any, desk: Desk, client: MCPClient) -> None:
    def answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
        message = json.loads(received.body)
        token = message["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": 1, "message": "x" * 100_000}
        notice = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        result = {"jsonrpc": "2.0", "id": message["id"], "result": text("sun")}
        stream(handler, event(notice), event(result))

    serve_desk(settings, desk)
    desk.raw = answer
    reports: list[Any] = []
    assert text_of(call(client, progress=reports.append)) == "sun"
    assert len(reports[0]["message"]) == MAX_MESSAGE + len("…")


@pytest.mark.parametrize("limits", [{"max_body_bytes": 1024}, {}])
def test_limits_of_the_site_do_not_open_the_breaker(
    settings: Any, desk: Desk, client: MCPClient, limits: dict[str, int]
) -> None:
    server = serve_desk(settings, desk, **limits)
    if limits:
        desk.answer = lambda params: text("x" * 10_000)
    else:
        settings.MCP_BRIDGE |= {"REMOTE_TOKEN_FOR": f"{__name__}.broken"}
        server.auth = RemoteServer.Auth.PER_USER
        server.save()
    for _ in range(breaker.FAILURES + 1):
        assert call(client)["isError"]
    assert gateway_of(RemoteServer.objects.get()).breaker.seconds_open() == 0


def broken(user: Any, server: RemoteServer) -> str:
    return "two\nlines"


def test_short_time_limit_opens_the_breaker(
    settings: Any, desk: Desk, client: MCPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_desk(settings, desk)
    monkeypatch.setattr("mcp_bridge.remote.calling.CONNECT_TIMEOUT", 0.1)
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "CALL_TIMEOUT": 0.2}
    desk.raw = SLOW["silent"]
    for _ in range(breaker.FAILURES):
        assert "time limit" in text_of(call(client))
    assert "has failed repeatedly" in text_of(call(client))


def test_waiting_call_lends_its_connections(
    settings: Any, desk: Desk, client: MCPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr("mcp_bridge.remote.calling.HELD", 0)
    monkeypatch.setattr(
        "mcp_bridge.remote.calling.close_connections", lambda: closed.append("closed")
    )
    serve_desk(settings, desk)
    assert text_of(call(client)) == "sun"
    assert closed == ["closed"]
    assert all(each.in_atomic_block for each in connections.all(initialized_only=True))


def test_long_definition_is_left_out(settings: Any, desk: Desk) -> None:
    desk.tools = [tool("long", description="x" * MAX_BYTES), FORECAST]
    server = connect(settings, desk)
    row = server.tools.get(remote_name="long")
    assert row.reason.startswith("its definition has")
    assert row.definition == ""


def test_unprintable_names_and_errors_are_stored(settings: Any, desk: Desk) -> None:
    desk.tools = [tool("a\0b"), FORECAST]
    server = connect(settings, desk)
    assert server.tools.exclude(remote_name="forecast").get().name is None

    def answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
        error = {"code": -32603, "message": "a\0b"}
        number = json.loads(received.body)["id"]
        send(handler, {"jsonrpc": "2.0", "id": number, "error": error})

    desk.raw = answer
    with pytest.raises(SyncError):
        sync(server)
    assert "\0" not in RemoteServer.objects.get().last_error


@pytest.mark.parametrize("how", ["moved", "deleted"])
def test_server_that_changes_while_fetched_is_not_stored(
    settings: Any, desk: Desk, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = connect(settings, desk)
    rows = RemoteServer.objects.filter(pk=server.pk)
    stale = rows.get()
    if how == "moved":
        rows.update(url="https://other.example/mcp")
    else:
        rows.delete()
    with pytest.raises(SyncError, match="changed or deleted"):
        sync(stale)
    assert not RemoteServer.objects.filter(last_sync__gt=server.last_sync).exists()


def test_server_cannot_tell_the_sites_secret(settings: Any, desk: Desk, client: MCPClient) -> None:
    settings.MCP_BRIDGE = {"REMOTE_SECRET_KEYS": KEYS}
    secret = sealed("key-of-the-site")
    server = serve_desk(settings, desk, auth=RemoteServer.Auth.STATIC, credential=secret)

    def answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
        error = {"code": 1, "message": f"You sent {received.headers['authorization']}"}
        number = json.loads(received.body)["id"]
        send(handler, {"jsonrpc": "2.0", "id": number, "error": error}, status=400)

    desk.raw = answer
    assert text_of(call(client)).endswith("You sent ….")
    with pytest.raises(SyncError):
        sync(server)
    assert "key-of-the-site" not in RemoteServer.objects.get().last_error
    assert "key-of-the-site" not in ToolCallRecord.objects.get().error_text


def test_changed_header_applies_to_the_next_call(
    settings: Any, desk: Desk, client: MCPClient
) -> None:
    server = serve_desk(settings, desk)
    header = server.headers.create(name="X-Team", from_header="X-Team", is_required=False)
    assert text_of(call(client)) == "sun"
    header.is_required = True
    header.save()
    assert "requires the header X-Team" in text_of(call(client))
    # Fetching is a request of the site itself, without a caller.
    assert sync(server).offered == 1


def test_unknown_kind_of_result_is_an_error(settings: Any, desk: Desk, client: MCPClient) -> None:
    serve_desk(settings, desk)
    desk.answer = lambda params: {"resultType": "task", "task": {"taskId": "1"}}
    assert "which this site lacks" in text_of(call(client))


def test_state_without_questions_is_sent_back(settings: Any, desk: Desk, client: MCPClient) -> None:
    def answer(params: dict[str, Any]) -> dict[str, Any]:
        if params.get("requestState") == "two":
            return text("sun")
        state = "two" if params.get("requestState") == "one" else "one"
        return {"resultType": "input_required", "requestState": state}

    serve_desk(settings, desk)
    desk.answer = answer
    assert text_of(call(client)) == "sun"
    desk.answer = lambda params: {"resultType": "input_required", "requestState": "again"}
    assert "asked for its state" in text_of(call(client))
    assert len(desk.calls) == 3 + 3


class Masking:
    def result(self, call: Any, result: CallToolResult) -> CallToolResult:
        texts = [each.text for each in result.content if isinstance(each, TextContent)]
        SEEN.append((texts, result.structured_content))
        return result


SEEN: list[Any] = []


@pytest.mark.parametrize(
    ("more", "structured"), [({"structuredContent": [1]}, [1]), ({"isError": True}, None)]
)
def test_interceptors_see_all_of_a_result(
    settings: Any, desk: Desk, client: MCPClient, more: dict[str, Any], structured: Any
) -> None:
    SEEN.clear()
    settings.MCP_BRIDGE = {"INTERCEPTORS": [f"{__name__}.Masking"]}
    block = {"type": "text", "text": "sun", "unknown": 1, "annotations": {"priority": 1}}
    desk.answer = lambda params: {"content": [block], "isError": False, **more}
    serve_desk(settings, desk)
    result = call(client)
    assert [(["sun"], structured)] == SEEN
    assert result["content"] == [block]
    assert result.get("structuredContent") == structured


def test_call_after_a_dropped_one_is_good(settings: Any, desk: Desk, client: MCPClient) -> None:
    serve_desk(settings, desk)
    desk.raw = DROPPING["in_stream"]
    assert call(client)["isError"]
    desk.raw = None
    assert text_of(call(client)) == "sun"
