"""Credentials and headers that a remote server receives, and those that it never does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from mcp_bridge.remote.encryption import SecretUnavailable, opened, sealed
from mcp_bridge.remote.models import RemoteHeader, RemoteServer
from mcp_bridge.remote.sync import SyncError, sync
from mcp_bridge.testing import MCPClient, text_of
from mcp_bridge.tokens.models import Token
from tests.remote.desk import Desk, allow, serve_desk

pytestmark = pytest.mark.django_db
KEYS = [Fernet.generate_key().decode() for _ in range(2)]
STATIC = RemoteServer.Auth.STATIC


@pytest.fixture
def client(settings: Any) -> MCPClient:
    settings.MCP_BRIDGE = {"REMOTE_SECRET_KEYS": KEYS}
    _, secret = Token.objects.issue(user=User.objects.create_user("ada"), name="Laptop")
    return MCPClient(token=secret)


def call(client: MCPClient, **headers: str) -> dict[str, Any]:
    client.headers |= headers
    return client.call_tool("weather_forecast", {"city": "Bonn"})


def token_for(user: User | None, server: RemoteServer) -> str | None:
    return None if user is None else {"ada": "token-of-ada"}.get(user.username)


def test_nothing_of_the_caller_is_sent(settings: Any, desk: Desk, client: MCPClient) -> None:
    serve_desk(settings, desk)
    call(client, Cookie="session=1", **{"X-Forwarded-For": "1.2.3.4", "X-Own": "mine"})
    received = desk.received[-1]
    assert {*received.headers} == {
        *("host", "content-type", "accept", "accept-encoding", "user-agent", "content-length"),
        *("mcp-protocol-version", "mcp-method", "mcp-name"),
    }
    sent = json.dumps(received.headers) + received.body.decode()
    assert all(each not in sent for each in ("ada", "mcp_bridge.testing", "session", "1.2.3.4"))


@pytest.mark.parametrize("stored", ["key-of-the-site", "env:MCP_REMOTE_KEY"])
def test_credential_of_the_site_is_sent(
    settings: Any, desk: Desk, client: MCPClient, stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_REMOTE_KEY", "key-of-the-site")
    row = sealed(stored)
    assert "key-of-the-site" not in row
    serve_desk(settings, desk, auth=STATIC, credential=row)
    assert text_of(call(client)) == "sun"
    assert {each.headers.get("authorization") for each in desk.received} == {
        "Bearer key-of-the-site"
    }


def test_secret_survives_a_new_key(settings: Any) -> None:
    settings.MCP_BRIDGE = {"REMOTE_SECRET_KEYS": KEYS[:1]}
    stored = sealed("secret")
    settings.MCP_BRIDGE = {"REMOTE_SECRET_KEYS": KEYS[::-1]}
    assert opened(stored) == "secret"
    settings.MCP_BRIDGE = {"REMOTE_SECRET_KEYS": KEYS[1:]}
    with pytest.raises(SecretUnavailable, match="no key"):
        opened(stored)
    settings.MCP_BRIDGE = {}
    with pytest.raises(SecretUnavailable, match="REMOTE_SECRET_KEYS"):
        sealed("secret")


def test_call_without_a_readable_secret_sends_nothing(
    settings: Any, desk: Desk, client: MCPClient
) -> None:
    serve_desk(settings, desk, auth=STATIC, credential=sealed("secret"))
    before = len(desk.received)
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "REMOTE_SECRET_KEYS": []}
    result = call(client)
    assert "The remote server Weather cannot be used" in text_of(result)
    assert len(desk.received) == before
    found = [each.id for each in run_checks(include_deployment_checks=True)]
    assert "mcp_bridge.W100" in found


def test_each_user_has_a_credential(settings: Any, desk: Desk, client: MCPClient) -> None:
    settings.MCP_BRIDGE |= {"REMOTE_TOKEN_FOR": f"{__name__}.token_for"}
    serve_desk(settings, desk, auth=RemoteServer.Auth.PER_USER)
    call(client)
    assert desk.received[-1].headers["authorization"] == "Bearer token-of-ada"
    _, secret = Token.objects.issue(user=User.objects.create_user("bob"), name="Phone")
    before = len(desk.received)
    result = call(MCPClient(token=secret))
    assert text_of(result).startswith("The remote server Weather requires your own credential")
    assert len(desk.received) == before


def failing(user: User | None, server: RemoteServer) -> Any:
    return 5 if user else {}["vault"]


def test_function_of_credentials_that_fails_is_named(
    settings: Any, desk: Desk, client: MCPClient, caplog: pytest.LogCaptureFixture
) -> None:
    settings.MCP_BRIDGE |= {"REMOTE_TOKEN_FOR": f"{__name__}.failing"}
    server = serve_desk(settings, desk)
    server.auth = RemoteServer.Auth.PER_USER
    server.save()
    before = len(desk.received)
    assert "cannot be used" in text_of(call(client))
    with pytest.raises(SyncError, match="cannot be used"):
        sync(server)
    assert len(desk.received) == before
    assert caplog.text.count(f"['REMOTE_TOKEN_FOR'] ({__name__}.failing) failed") == 2


def test_own_token_is_sent_if_the_row_says_so(settings: Any, desk: Desk, client: MCPClient) -> None:
    serve_desk(settings, desk, auth=RemoteServer.Auth.PASSTHROUGH)
    call(client)
    assert desk.received[-1].headers["authorization"] == client.headers["Authorization"]
    found = [each.id for each in run_checks(include_deployment_checks=True)]
    assert "mcp_bridge.W101" in found


def leak(user: User | None, server: RemoteServer) -> str:
    return LEAKED[0]


LEAKED: list[str] = []


def test_hook_cannot_send_the_callers_token(
    settings: Any, desk: Desk, client: MCPClient, caplog: pytest.LogCaptureFixture
) -> None:
    LEAKED[:] = [client.headers["Authorization"].removeprefix("Bearer ")]
    settings.MCP_BRIDGE |= {"REMOTE_TOKEN_FOR": f"{__name__}.leak"}
    serve_desk(settings, desk, auth=RemoteServer.Auth.PER_USER)
    before = len(desk.received)
    assert "reference" in text_of(call(client))
    assert len(desk.received) == before
    assert LEAKED[0] not in caplog.text


def test_header_comes_from_the_row_or_the_caller(
    settings: Any, desk: Desk, client: MCPClient
) -> None:
    server = serve_desk(settings, desk)
    server.headers.create(name="X-Api-Key", value=sealed("the-key"), is_secret=True)
    server.headers.create(name="X-Tenant", from_header="X-Own-Tenant", is_required=True)
    server.headers.create(name="X-Trace", from_header="X-Trace", is_required=False)
    before = len(desk.received)
    text = text_of(call(client))
    assert text == "The remote server Weather requires the header X-Tenant, which lacks a value."
    assert len(desk.received) == before
    call(client, **{"X-Own-Tenant": "seven"})
    headers = desk.received[-1].headers
    assert (headers["x-api-key"], headers["x-tenant"]) == ("the-key", "seven")
    assert "x-trace" not in headers


@pytest.mark.parametrize(
    "fields",
    [
        *({"name": each, "value": "x"} for each in ("Host", "content-length", "Mcp-Session-Id")),
        *({"name": each, "value": "x"} for each in ("Accept-Encoding", "Connection", "a b", "")),
        {"name": "X-A", "from_header": "Authorization"},
        {"name": "X-A", "from_header": "cookie"},
        {"name": "X-A"},
        {"name": "X-A", "value": "x", "from_header": "X-B"},
        {"name": "X-A", "from_header": "X-B", "is_secret": True},
        {"name": "x-key", "value": "x"},
        {"name": "X-A", "value": "x\r\nX-B: y"},
    ],
    ids=str,
)
def test_wrong_header_is_refused(fields: dict[str, Any]) -> None:
    server = RemoteServer.objects.create(slug="w", name="W", url="https://w.example/mcp")
    server.headers.create(name="X-Key", value="1")
    with pytest.raises(ValidationError):
        RemoteHeader(server=server, **fields).full_clean()


@pytest.mark.parametrize("values", [{}, {"value": "x", "from_header": "X-B"}])
def test_database_holds_one_source_of_a_header(values: dict[str, str]) -> None:
    server = RemoteServer.objects.create(slug="w", name="W", url="https://w.example/mcp")
    with pytest.raises(IntegrityError), transaction.atomic():
        server.headers.create(name="X-A", **values)


def test_changed_credential_is_used_by_the_next_call(
    settings: Any, desk: Desk, client: MCPClient
) -> None:
    server = serve_desk(settings, desk, auth=STATIC, credential=sealed("first"))
    call(client)
    server.credential = sealed("second")
    server.save()
    call(client)
    assert [each.headers["authorization"] for each in desk.received[-2:]] == [
        *("Bearer first", "Bearer second"),
    ]


def test_keys_and_hooks_are_checked(settings: Any, desk: Desk) -> None:
    allow(settings, desk.url, REMOTE_SECRET_KEYS=["short"], REMOTE_TOKEN_FOR="nothing.at_all")
    found = [each.id for each in run_checks() if each.id in ("mcp_bridge.E101", "mcp_bridge.E102")]
    assert found == ["mcp_bridge.E101", "mcp_bridge.E102"]
