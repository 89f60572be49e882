"""Sessions of clients of earlier revisions, if the setting LEGACY_ASK allows asking them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache.backends.locmem import LocMemCache

from mcp_bridge import mcp_tool
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {}}


@mcp_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture(autouse=True)
def site(settings: Any, db: None) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "LEGACY_ASK": 5}
    serve(settings, add)


def client_of(name: str) -> MCPClient:
    user, _ = get_user_model().objects.get_or_create(username=name)
    return MCPClient(token=Token.objects.issue(user=user, name=name)[1], revision="2025-11-25")


def send(client: MCPClient, method: str, session: str | None, **params: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return post(client, message, session)


def post(client: MCPClient, message: Any, session: str | None) -> Any:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
        **client.headers,
        **({} if session is None else {"Mcp-Session-Id": session}),
    }
    return client.http.post(
        "/mcp", json.dumps(message), content_type="application/json", headers=headers
    )


def end(client: MCPClient, session: str) -> Any:
    headers = {**client.headers, "Mcp-Session-Id": session}
    return client.http.delete("/mcp", headers=headers)


def begin(client: MCPClient) -> str:
    session: str = send(client, "initialize", None, **HELLO).headers["Mcp-Session-Id"]
    return session


def call(client: MCPClient, session: str | None) -> Any:
    return send(client, "tools/call", session, name="add", arguments={"a": 1, "b": 2})


def test_calls_are_served_with_and_without_a_session() -> None:
    client = client_of("ada")
    for session in (begin(client), None):
        assert call(client, session).json()["result"]["structuredContent"] == {"result": 3}


@pytest.mark.requirement("legacy.sessions")
def test_ended_session_is_not_found() -> None:
    client = client_of("ada")
    session, other = begin(client), begin(client)
    ended = end(client, session)
    assert (ended.status_code, ended.content) == (204, b"")
    response = call(client, session)
    assert response.status_code == 404
    assert response.json()["error"]["code"] == -32600
    assert response.json()["id"] == 1
    assert end(client, session).status_code == 404
    assert send(client, "ping", session).status_code == 404
    assert call(client, other).status_code == 200


@pytest.mark.parametrize("change", ["x", "", None])
def test_session_that_was_not_issued_is_not_found(change: str | None) -> None:
    client = client_of("ada")
    session = "other" if change is None else begin(client)[: -1 if change else None] + change
    expected = 200 if change == "" else 404
    assert call(client, session).status_code == expected


def test_session_of_another_user_is_not_found() -> None:
    session = begin(client_of("ada"))
    assert call(client_of("grace"), session).status_code == 404
    assert end(client_of("grace"), session).status_code == 404
    assert call(client_of("ada"), session).status_code == 200


@pytest.mark.requirement("security.no-session-auth")
def test_session_is_no_credential() -> None:
    client = client_of("ada")
    session = begin(client)
    client.headers.clear()
    assert call(client, session).status_code == 401
    assert end(client, session).status_code == 401


def test_old_session_does_not_hinder_a_new_one() -> None:
    response = send(client_of("ada"), "initialize", "gone", **HELLO)
    assert response.status_code == 200
    assert response.headers["Mcp-Session-Id"]


def test_refused_initialize_begins_no_session() -> None:
    response = send(client_of("ada"), "initialize", None, protocolVersion=5)
    assert "error" in response.json()
    assert "Mcp-Session-Id" not in response.headers


@pytest.mark.parametrize("capabilities", [None, {}, {"elicitation": 5}, {"elicitation": ["form"]}])
def test_odd_capabilities_begin_a_session_too(capabilities: Any) -> None:
    given = {**HELLO, "capabilities": capabilities}
    response = send(client_of("ada"), "initialize", None, **given)
    is_refused = capabilities is None
    assert ("Mcp-Session-Id" in response.headers) is not is_refused


def test_modern_request_ignores_the_session() -> None:
    client = client_of("ada")
    modern = MCPClient(token=client.headers["Authorization"].split()[1])
    modern.headers["Mcp-Session-Id"] = "of another server"
    assert modern.call_tool("add", {"a": 1, "b": 2})["structuredContent"] == {"result": 3}


def test_replies_without_a_question_change_nothing() -> None:
    client = client_of("ada")
    for session in (begin(client), "gone", None):
        reply = {"jsonrpc": "2.0", "id": "x" * 32, "result": {"action": "accept"}}
        response = post(client, reply, session)
        assert (response.status_code, response.content) == (202, b"")


def test_sessions_do_not_exist_without_the_setting(settings: Any) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "LEGACY_ASK": False}
    client = client_of("ada")
    response = send(client, "initialize", None, **HELLO)
    assert "Mcp-Session-Id" not in response.headers
    assert call(client, "gone").status_code == 200
    refused = end(client, "gone")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")


def test_delete_is_allowed_with_the_setting() -> None:
    assert client_of("ada").http.get("/mcp").headers["Allow"] == "POST, DELETE"


def test_initialize_without_an_id_begins_nothing() -> None:
    client = client_of("ada")
    message = {"jsonrpc": "2.0", "method": "initialize", "params": {"capabilities": [1]}}
    response = post(client, message, None)
    assert (response.status_code, response.content) == (202, b"")
    assert "Mcp-Session-Id" not in response.headers


class BrokenCache(LocMemCache):
    def get(self, *args: Any, **kwargs: Any) -> Any:
        raise ConnectionError("the cache is down")


def test_broken_cache_is_an_error_of_legacy_sessions_alone(settings: Any) -> None:
    client = client_of("ada")
    session = begin(client)
    settings.CACHES = {"default": {"BACKEND": f"{__name__}.BrokenCache"}}
    assert call(client, None).json()["result"]["structuredContent"] == {"result": 3}
    modern = MCPClient(token=client.headers["Authorization"].split()[1])
    modern.headers["Mcp-Session-Id"] = session
    assert modern.call_tool("add", {"a": 1, "b": 2})["structuredContent"] == {"result": 3}
    response = call(client, session)
    assert response.headers["Content-Type"] == "application/json"
    assert response.json()["error"]["code"] == -32603
