"""A whole remote server at an address of the site."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.urls import include, path

from mcp_bridge import Context, RejectError
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol import Request
from mcp_bridge.remote import breaker
from mcp_bridge.remote.encryption import sealed
from mcp_bridge.remote.models import RemoteServer
from mcp_bridge.remote.relay import MOST_QUOTED, RemoteMessage
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.tokens.models import Token
from tests.remote.desk import Desk, allow, open_desk, text
from tests.remote.test_credentials import KEYS
from tests.remote.upstreams.dropping import DROPPING
from tests.remote.upstreams.lying import LIES
from tests.remote.upstreams.writing import begin, chunk, event, stream
from tests.support.services import Received, send

pytestmark = pytest.mark.django_db
urlpatterns = [
    path("mcp/remote/", include("mcp_bridge.remote.urls")),
    path("", include("mcp_bridge.urls")),
]
ADDRESS = "/mcp/remote/weather"


@pytest.fixture
def desk(settings: Any) -> Iterator[Desk]:
    settings.ROOT_URLCONF = __name__
    settings.MCP_BRIDGE = {"REMOTE_SECRET_KEYS": KEYS}
    with open_desk() as desk:
        allow(settings, desk.url)
        RemoteServer.objects.create(
            slug="weather",
            name="Weather",
            url=desk.url,
            permission="auth.view_group",
            auth=RemoteServer.Auth.STATIC,
            credential=sealed("key-of-the-site"),
        )
        yield desk


def allowed(username: str = "ada") -> User:
    user = User.objects.create_user(username)
    user.user_permissions.add(Permission.objects.get(codename="view_group"))
    return user


@pytest.fixture
def client(desk: Desk) -> MCPClient:
    return caller()


def caller(revision: str = "2026-07-28", **options: Any) -> MCPClient:
    """Return a client of the server, with a token."""
    _, secret = Token.objects.issue(user=allowed(), name="Laptop", **options)
    client = MCPClient(token=secret, revision=revision)
    client.path = ADDRESS
    return client


def record() -> ToolCallRecord:
    return ToolCallRecord.objects.latest("pk")


def refusal(client: MCPClient, method: str = "tools/list", **params: Any) -> dict[str, Any]:
    with pytest.raises(MCPError) as raised:
        client.post(method, **params)
    return dict(raised.value.error)


def test_messages_are_relayed_and_recorded(desk: Desk, client: MCPClient) -> None:
    desk.answer = lambda params: text("sun", unknown=2**60)
    assert client.post("tools/list")["tools"] == desk.tools
    assert client.call_tool("forecast", {"city": "Bonn"}) == text("sun", unknown=2**60)
    row = record()
    assert (row.kind, row.tool, row.outcome) == (
        "remote",
        "weather tools/call forecast",
        "succeeded",
    )
    assert (row.upstream, row.upstream_status) == ("weather", "2xx")


def test_only_listed_headers_are_relayed(desk: Desk, client: MCPClient) -> None:
    own = {"Cookie": "a=1", "X-Own": "mine", "Origin": "http://testserver", "Referer": "http://x"}
    client.headers |= {**own, "traceparent": "00-1", "Last-Event-ID": "7", "Mcp-Param-A": "b"}
    client.post("tools/list")
    headers = desk.received[-1].headers
    assert {*headers} == {
        *("host", "accept", "accept-encoding", "content-type", "content-length", "authorization"),
        *("mcp-protocol-version", "mcp-method", "mcp-param-a", "traceparent", "last-event-id"),
    }
    assert headers["authorization"] == "Bearer key-of-the-site"


def test_only_listed_headers_come_back(desk: Desk, client: MCPClient) -> None:
    def answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
        body = {"jsonrpc": "2.0", "id": json.loads(received.body)["id"], "result": {}}
        send(
            handler,
            body,
            Mcp_Session_Id="s-1",
            WWW_Authenticate="Bearer",
            Set_Cookie="a=1",
            X_Powered_By="x",
        )

    desk.raw = answer
    client.post("ping")
    headers = client.response.headers
    assert headers["Mcp-Session-Id"].startswith("s-1:")
    assert not {"Set-Cookie", "X-Powered-By", "WWW-Authenticate"} & {*headers}


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-06-18"])
def test_server_is_unknown_without_its_permission(desk: Desk, revision: str) -> None:
    client = caller(revision)
    User.objects.get(username="ada").user_permissions.clear()
    answers = []
    for client.path in (ADDRESS, "/mcp/remote/nothing"):
        for body in (json.dumps(client.message("tools/list")).encode(), b"{"):
            response = client.send(body, {**client.headers, "Mcp-Method": "tools/list"})
            answers.append((response.status_code, response.content))
    assert answers == answers[:1] * 4
    assert answers[0][0] == 404
    assert desk.received == []
    assert {each.error_code for each in ToolCallRecord.objects.all()} == {"forbidden"}


@pytest.mark.parametrize("fields", [{"permission": ""}, {"enabled": False}])
def test_server_is_closed_by_default(desk: Desk, client: MCPClient, fields: Any) -> None:
    RemoteServer.objects.update(**fields)
    User.objects.update(is_superuser=True)
    assert refusal(client)["code"] == 404
    assert desk.received == []


@pytest.mark.parametrize("options", [{"tools": ["a"]}, {"tools": []}, {"read_only": True}])
def test_limited_token_is_refused(desk: Desk, options: Any) -> None:
    assert refusal(caller(**options))["code"] == 404
    assert desk.received == []


def test_anonymous_caller_is_asked_for_a_credential(desk: Desk) -> None:
    client = MCPClient()
    client.path = ADDRESS
    assert refusal(client)["code"] == 401
    assert client.response.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("lie", "status"),
    [("html", 200), ("half_json", 200), ("failing", 503), ("no_result", None), ("untyped", 200)],
)
def test_answer_that_is_not_json_rpc_is_an_error(
    desk: Desk, client: MCPClient, lie: str, status: int | None
) -> None:
    desk.raw = LIES[lie]
    if status is None:
        client.send(*request(client))
        assert client.response.status_code == 200
        return
    error = refusal(client)
    assert (error["code"], error["data"]["upstream_status"]) == (-32603, status)
    assert len(error["data"]["body"]) <= MOST_QUOTED
    assert client.response.status_code == 502
    row = record()
    assert (row.outcome, row.upstream_status) == ("failed", f"{status // 100}xx")


def request(client: MCPClient, method: str = "tools/list") -> tuple[bytes, dict[str, str]]:
    message = client.message(method)
    return json.dumps(message).encode(), client.mirrored(message)


@pytest.mark.parametrize("lie", ["challenge", "redirect", "compressed"])
def test_refusals_of_the_server_are_not_relayed(desk: Desk, client: MCPClient, lie: str) -> None:
    desk.raw = LIES[lie]
    error = refusal(client)
    assert error["code"] == -32603
    assert "127.0.0.1" not in json.dumps(error)
    assert client.response.status_code == 502
    assert not {"WWW-Authenticate", "Location"} & {*client.response.headers}


def test_server_that_is_down_is_named(desk: Desk, client: MCPClient) -> None:
    desk.raw = DROPPING["before_head"]
    error = refusal(client)
    assert error["message"] == "The remote server Weather broke off."
    assert record().upstream_status == "error"


def test_batch_is_refused(desk: Desk, client: MCPClient) -> None:
    client.send(b"[]")
    assert client.response.json()["error"]["code"] == -32600
    assert desk.received == []


def test_events_are_relayed_as_they_came(desk: Desk, client: MCPClient) -> None:
    raw = b": hello\r\n\r\nid: 1\r\nevent: message\r\nretry: 5\r\ndata: {broken\r\n\r\n"

    def answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
        stream(handler, raw, event({"jsonrpc": "2.0", "id": number(received), "result": {}}))

    desk.raw = answer
    client.send(*request(client))
    assert client.response.headers["Content-Type"] == "text/event-stream"
    assert client.response.headers["X-Accel-Buffering"] == "no"
    assert raw in client._body
    assert record().outcome == "succeeded"


def number(received: Received) -> Any:
    return json.loads(received.body)["id"]


def test_session_of_a_legacy_client_is_relayed(settings: Any, desk: Desk, official: str) -> None:
    allow(settings, official)
    RemoteServer.objects.update(url=f"{official}/legacy_stateful_sse/mcp", auth="none")
    client = caller("2025-11-25")
    client.post(
        "initialize",
        protocolVersion="2025-11-25",
        capabilities={},
        clientInfo={"name": "a", "version": "1"},
    )
    session = client.response.headers["Mcp-Session-Id"]
    client.headers["Mcp-Session-Id"] = session
    client.send(
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}', client.mirrored({"method": ""})
    )
    assert client.response.status_code == 202
    result = client.call_tool("add", {"a": 1, "b": 2})
    assert result["structuredContent"] == {"total": 3}
    version = {"MCP-Protocol-Version": "2025-11-25", "Content-Type": None}
    client.send(b"", version, verb="DELETE")
    assert client.response.status_code == 200
    client.send(*request(client))
    assert client.response.status_code == 404
    assert [each.tool for each in ToolCallRecord.objects.order_by("pk")] == [
        *("weather initialize", "weather notifications/initialized", "weather tools/call add"),
        *("weather DELETE", "weather tools/list"),
    ]


def test_get_of_a_server_without_a_stream_is_405(desk: Desk, client: MCPClient) -> None:
    desk.raw = lambda received, handler: send(handler, b"no", status=405, kind="text/plain")
    client.send(b"", {"Content-Type": None}, verb="GET")
    assert (client.response.status_code, client.response.content) == (405, b"")


SEEN: list[Any] = []


class Watch:
    def request(self, request: Request, context: Context) -> None:
        SEEN.append(request.method)
        if request.method == "tools/call" and request.params["name"] == "forbidden":
            raise RejectError("Not that one.")
        if request.params.get("name") == "rename":
            request.params = {**request.params, "name": "renamed"}

    def remote_message(self, message: RemoteMessage, context: Context) -> Any:
        SEEN.append(message)
        if "SECRET" in json.dumps(message.members):
            raise RejectError("It has a secret.")
        if "change" in json.dumps(message.members):
            return {**message.members, "result": {"changed": True}}
        return None


@pytest.fixture
def watched(settings: Any, desk: Desk) -> None:
    SEEN.clear()
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "INTERCEPTORS": [f"{__name__}.Watch"]}


@pytest.mark.usefixtures("watched")
def test_interceptors_see_and_reject_messages(desk: Desk, client: MCPClient) -> None:
    client.post("tools/list")
    assert SEEN[0] == "tools/list"
    assert (SEEN[1].server, SEEN[1].request["method"]) == ("weather", "tools/list")
    assert SEEN[1].members["result"]["tools"] == desk.tools
    before = len(desk.received)
    error = refusal(client, "tools/call", name="forbidden", arguments={})
    assert (error["code"], error["message"]) == (403, "Not that one.")
    assert len(desk.received) == before
    assert record().error_code == "rejected"
    desk.answer = lambda params: text("SECRET")
    error = refusal(client, "tools/call", name="forecast", arguments={})
    assert error == {"code": 403, "message": "It has a secret."}
    assert (record().outcome, record().error_code) == ("failed", "rejected")
    assert record().upstream_status == "2xx"
    desk.answer = lambda params: text("change")
    assert client.post("tools/call", name="forecast", arguments={}) == {"changed": True}
    client.post("tools/call", name="rename", arguments={})
    assert desk.calls[-1]["name"] == "renamed"


@pytest.mark.usefixtures("watched")
def test_interceptors_see_each_event(desk: Desk, client: MCPClient) -> None:
    def answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
        notice = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "SECRET"}}
        asking = {"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "x": "SECRET"}
        result = {"jsonrpc": "2.0", "id": number(received), "result": {}}
        stream(handler, b"data: {broken\n\n", event(notice), event(asking), event(result))

    desk.raw = answer
    client.send(*request(client))
    lines = client._body.splitlines()
    found = [json.loads(each[6:]) for each in lines if each.startswith(b'data: {"')]
    told = [each["params"]["data"] for each in found[:2]]
    assert told[0].endswith("sent a message that this site cannot read.")
    assert told[1] == "It has a secret."
    assert found[1]["params"]["level"] == "error"
    assert found[2] == {
        "jsonrpc": "2.0",
        "id": "q",
        "error": {"code": 403, "message": "It has a secret."},
    }
    assert found[3]["result"] == {}
    assert b"SECRET" not in client._body
    assert b"broken" not in client._body


@pytest.mark.usefixtures("watched")
def test_broken_interceptor_rejects_without_its_text(
    desk: Desk, client: MCPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watch, "remote_message", lambda *given: 1 / 0)
    error = refusal(client)
    assert error["code"] == -32603
    assert "division" not in error["message"]


def test_long_event_ends_with_an_error(
    desk: Desk, client: MCPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_bridge.remote.gateway.MAX_EVENT_BYTES", 1000)

    def answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
        notice = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
        stream(handler, event(notice), event({"padding": "x" * 200_000}))

    desk.raw = answer
    error = refusal(client)
    assert "an event of more than 1000 bytes" in error["message"]
    assert (record().outcome, record().upstream_status) == ("failed", "2xx")


def test_broken_stream_ends_with_an_error(desk: Desk, client: MCPClient) -> None:
    def answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
        begin(handler)
        handler.wfile.write(chunk(event({"jsonrpc": "2.0", "method": "x"})))
        handler.close_connection = True

    desk.raw = answer
    assert refusal(client)["message"] == "The remote server Weather broke off."


def test_refused_requests_do_not_keep_the_breaker_open(
    desk: Desk, client: MCPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.raw = LIES["failing"]
    for _ in range(breaker.FAILURES):
        refusal(client)
    desk.raw = None
    for _ in range(3):
        assert "has failed repeatedly" in refusal(client)["message"]
    monkeypatch.setattr(breaker, "monotonic", lambda: time.monotonic() + breaker.PAUSE)
    assert client.post("tools/list")["tools"] == desk.tools


def test_members_outside_of_json_rpc_are_refused(desk: Desk, client: MCPClient) -> None:
    message = {**client.message("ping"), "Method": "tools/call", "Params": {"name": "x"}}
    client.send(json.dumps(message).encode(), client.mirrored(message))
    assert client.response.json()["error"]["code"] == -32600
    assert desk.received == []


@pytest.mark.usefixtures("watched")
def test_changed_name_is_mirrored_for_the_server(settings: Any, desk: Desk, official: str) -> None:
    allow(settings, official)
    RemoteServer.objects.update(url=f"{official}/modern_json/mcp", auth="none")
    client = caller()
    result = client.post("tools/call", name="rename", arguments={})
    assert "renamed" in result["content"][0]["text"]


@pytest.mark.usefixtures("watched")
def test_what_interceptors_cannot_see_is_not_quoted(desk: Desk, client: MCPClient) -> None:
    desk.raw = LIES["html"]
    assert refusal(client)["data"] == {"upstream_status": 200}


def test_session_is_of_one_user(settings: Any, desk: Desk) -> None:
    def answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
        body = {"jsonrpc": "2.0", "id": number(received), "result": {}}
        send(handler, body, Mcp_Session_Id="s-1")

    desk.raw = answer
    ada = caller("2025-11-25")
    ada.post("ping")
    session = ada.response.headers["Mcp-Session-Id"]
    _, secret = Token.objects.issue(user=allowed("bob"), name="Phone")
    bob = MCPClient(token=secret, revision="2025-11-25")
    bob.path = ADDRESS
    for client, status in ((ada, 200), (bob, 404)):
        client.headers["Mcp-Session-Id"] = session
        client.send(*request(client, "ping"))
        assert client.response.status_code == status
    assert desk.received[-1].headers["mcp-session-id"] == "s-1"
    assert len(desk.received) == 2


@pytest.mark.parametrize(("status", "header"), [(404, None), (429, "7")])
def test_status_for_the_client_stays(
    desk: Desk, client: MCPClient, status: int, header: str | None
) -> None:
    more = {} if header is None else {"Retry_After": header}
    desk.raw = lambda received, handler: send(handler, b"no", status, "text/plain", **more)
    assert refusal(client)["code"] == -32603
    assert client.response.status_code == status
    assert client.response.headers.get("Retry-After") == header


def test_silent_stream_ends_with_an_error(desk: Desk, client: MCPClient) -> None:
    RemoteServer.objects.update(idle_s=1)

    def answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
        begin(handler)
        handler.connection.recv(1)

    desk.raw = answer
    assert refusal(client)["message"] == "The remote server Weather did not answer in time."
    assert record().error_code == "unavailable"


def test_answer_to_another_request_is_an_error(desk: Desk, client: MCPClient) -> None:
    desk.raw = LIES["wrong_id"]
    assert "answered another request" in refusal(client)["message"]
