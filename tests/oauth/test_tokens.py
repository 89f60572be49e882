"""Access tokens: their audience, their end, and that they are never stored in the clear."""

from __future__ import annotations

import logging
import secrets
import time
from base64 import b64encode
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import django
import pytest
from django.contrib.auth import get_user_model
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from oauth2_provider.models import AccessToken, Application, RefreshToken
from oauth2_provider.oauth2_validators import OAuth2Validator

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.oauth.models import ClientUse
from mcp_bridge.testing import MCPClient, MCPError, text_of
from mcp_bridge.tokens.models import Token
from tests.oauth.clients import RESOURCE, OAuthClient, answered
from tests.oauth.conftest import MCP_BRIDGE
from tests.support.credentials import Door

METADATA = "https://testserver/.well-known/oauth-protected-resource/mcp"
OURS = "mcp_bridge.tokens.authentication.TokenAuthentication"
OAUTH = MCP_BRIDGE["AUTHENTICATION_CLASSES"][0]
SESSION = "rest_framework.authentication.SessionAuthentication"


@pytest.fixture(params=["WSGI", "ASGI"])
def interface(request: pytest.FixtureRequest) -> str:
    return request.param


def client_with(token: str | None, interface: str = "WSGI") -> MCPClient:
    if interface == "WSGI":
        return MCPClient(token=token)
    client = MCPClient(path="/async", token=token)
    client.http = Door("async")  # type: ignore[assignment]
    return client


def issued(user: Any, **changed: Any) -> str:
    """Return the secret of a token in the database, for the endpoint and for an hour."""
    secret = secrets.token_urlsafe(30)
    given = {
        "token": secret,
        "resource": [RESOURCE],
        "scope": "mcp",
        "expires": timezone.now() + timedelta(hours=1),
        **changed,
    }
    AccessToken.objects.create(user=user, **given)
    return secret


def machine(user: Any, **changed: Any) -> Application:
    return Application.objects.create(
        name="Nightly report",
        user=user,
        client_type=Application.CLIENT_CONFIDENTIAL,
        authorization_grant_type=Application.GRANT_CLIENT_CREDENTIALS,
        client_secret="secret of the machine",
        **changed,
    )


def status_and_challenge(client: MCPClient) -> tuple[int, str | None]:
    return client.response.status_code, client.response.get("WWW-Authenticate")


INVALID = f'Bearer realm="mcp", error="invalid_token", scope="mcp", resource_metadata="{METADATA}"'
NINE: dict[str, tuple[dict[str, Any], int]] = {
    "right": ({}, 200),
    "of two resources": ({"resource": [RESOURCE, "https://other.example/"]}, 200),
    "expired": ({"expires": timezone.now() - timedelta(seconds=1)}, 401),
    "of no resource": ({"resource": []}, 401),
    "of the whole site": ({"resource": ["https://testserver"]}, 401),
    "of another path": ({"resource": ["https://testserver/mcp/other"]}, 401),
    "of another site": ({"resource": ["https://other.example/mcp"]}, 401),
    "of a user who is not active": ({"is_active": False}, 401),
    "of nobody": ({"nobody": True}, 403),
}


@pytest.mark.requirement("auth.audience", "auth.invalid-401")
@pytest.mark.parametrize("name", NINE)
def test_token_opens_its_endpoint_only(user: Any, name: str, interface: str) -> None:
    given, status = NINE[name]
    changed = dict(given)
    user.is_active = changed.pop("is_active", True)
    user.save()
    whose = None if changed.pop("nobody", False) else user
    client = client_with(issued(whose, **changed), interface)
    if status == 200:
        assert text_of(client.call_tool("whoami")) == "ada"
    else:
        with pytest.raises(MCPError):
            client.call_tool("whoami")
    assert status_and_challenge(client) == (status, INVALID if status == 401 else None)


@pytest.mark.requirement("auth.no-others", "auth.invalid-401")
@pytest.mark.parametrize("token", ["unknown", "with space", "mcp_unknown", "a.b.c", "ü"])
def test_foreign_tokens_are_refused(user: Any, token: str, interface: str) -> None:
    client = client_with(token, interface)
    with pytest.raises(MCPError):
        client.list_tools()
    assert status_and_challenge(client) == (401, INVALID)


def test_challenge_without_a_token_names_no_error(interface: str) -> None:
    client = client_with(None, interface)
    with pytest.raises(MCPError):
        client.list_tools()
    challenge = INVALID.replace('error="invalid_token", ', "")
    assert status_and_challenge(client) == (401, challenge)


@pytest.mark.parametrize("order", [[OAUTH, OURS], [OURS, OAUTH]])
def test_both_token_kinds_work_in_any_class_order(
    user: Any, settings: Any, order: list[str]
) -> None:
    settings.MCP_BRIDGE = {**MCP_BRIDGE, "AUTHENTICATION_CLASSES": order}
    _, ours = Token.objects.issue(user=user, name="Laptop")
    for token in (ours, issued(user)):
        assert text_of(client_with(token).call_tool("whoami")) == "ada"


def test_invalid_token_does_not_fall_back_to_session(user: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {**MCP_BRIDGE, "AUTHENTICATION_CLASSES": [OAUTH, SESSION]}
    client = MCPClient(token=issued(user, expires=timezone.now()))
    client.http.force_login(user)
    with pytest.raises(MCPError):
        client.list_tools()
    assert client.response.status_code == 401


@pytest.mark.requirement("auth.no-query")
def test_token_is_read_only_from_the_header(user: Any) -> None:
    token = issued(user)
    query = MCPClient(path=f"/mcp?access_token={token}")
    with pytest.raises(MCPError):
        query.list_tools()
    assert query.response.status_code == 401
    form = Client().post("/mcp", {"access_token": token}, secure=True)
    assert form.status_code == 415


def test_missing_scope_challenge_names_all_required_scopes(user: Any, interface: str) -> None:
    client = client_with(issued(user), interface)
    with pytest.raises(MCPError):
        client.call_tool("write", {"text": "a"})
    status, challenge = status_and_challenge(client)
    assert status == 403
    assert 'error="insufficient_scope", scope="mcp mcp:write"' in str(challenge)
    oauth = OAuthClient(user)
    more = oauth.log_in(scope="mcp mcp:write")["access_token"]
    assert text_of(client_with(more, interface).call_tool("write", {"text": "a"})) == "a"


def test_scopeless_token_cannot_call_scoped_tools(user: Any) -> None:
    client = client_with(issued(user, scope=""))
    with pytest.raises(MCPError):
        client.call_tool("whoami")
    assert client.response.status_code == 403


# Events that end a token take effect with the next request.


@pytest.fixture
def oauth(user: Any) -> OAuthClient:
    return OAuthClient(user)


def opens(token: str) -> bool:
    client = client_with(token)
    try:
        client.call_tool("whoami")
    except MCPError:
        assert status_and_challenge(client) == (401, INVALID)
        return False
    return True


def test_deactivated_user_is_refused_at_once(oauth: OAuthClient, user: Any) -> None:
    token = oauth.log_in()["access_token"]
    assert opens(token)
    user.is_active = False
    user.save()
    assert not opens(token)


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_revoked_token_is_refused_at_once(oauth: OAuthClient, kind: str) -> None:
    given = oauth.log_in()
    assert opens(given["access_token"])
    body = {"token": given[kind], "client_id": oauth.client_id}
    assert oauth.http.post("/oauth/revoke/", body, secure=True).status_code == 200
    assert not opens(given["access_token"])


def test_deleted_client_is_refused_at_once(oauth: OAuthClient) -> None:
    token = oauth.log_in()["access_token"]
    Application.objects.all().delete()
    assert not opens(token)


# Machines: the grant "client credentials".


def token_of(application: Application, **changed: Any) -> Any:
    credentials = b64encode(f"{application.client_id}:secret of the machine".encode()).decode()
    body = {"grant_type": "client_credentials", "scope": "mcp", "resource": RESOURCE, **changed}
    return Client().post(
        "/oauth/token/", body, secure=True, headers={"Authorization": f"Basic {credentials}"}
    )


def test_machine_acts_as_the_user_of_its_application(interface: str) -> None:
    robot = get_user_model().objects.create_user("robot")
    token = token_of(machine(robot)).json()["access_token"]
    assert text_of(client_with(token, interface).call_tool("whoami")) == "robot"
    robot.is_active = False
    robot.save()
    assert not opens(token)


def test_machine_without_a_user_is_anonymous() -> None:
    client = client_with(token_of(machine(None)).json()["access_token"])
    with pytest.raises(MCPError):
        client.call_tool("whoami")
    assert client.response.status_code == 403


def test_machine_token_must_be_for_the_endpoint(user: Any) -> None:
    application = machine(user)
    answer = token_of(application, resource="https://evil.example/mcp")
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_target")
    body = {"grant_type": "client_credentials", "client_id": application.client_id}
    body |= {"client_secret": "secret of the machine", "scope": "mcp"}
    unbound = Client().post("/oauth/token/", body, secure=True).json()["access_token"]
    assert not opens(unbound)


def test_public_client_does_not_act_as_its_owner(user: Any) -> None:
    owner = get_user_model().objects.create_user("owner")
    application = Application.objects.create(
        user=owner, client_type="public", authorization_grant_type="authorization-code"
    )
    client = client_with(issued(None, application=application))
    with pytest.raises(MCPError):
        client.call_tool("whoami")
    assert client.response.status_code == 403


# Secrets.


@pytest.fixture
def written(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """All that is logged at DEBUG, but by the two libraries of which docs/access/oauth.md warns."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name.partition(".")[0] not in ("oauthlib", "oauth2_provider"):
                lines.append(self.format(record))

    handler, root = Lines(), logging.getLogger()
    with caplog.at_level(logging.DEBUG):
        root.addHandler(handler)
        yield lines
        root.removeHandler(handler)


@pytest.mark.requirement("auth.storage")
def test_secrets_are_not_logged_recorded_or_stored(
    user: Any, oauth: OAuthClient, written: list[str], settings: Any
) -> None:
    given = oauth.log_in()
    again = oauth.refresh(given["refresh_token"]).json()
    for each in (given, again):
        client_with(each["access_token"]).call_tool("whoami")
    with pytest.raises(MCPError):
        client_with(f"{again['access_token']}x").call_tool("whoami")
    confidential = OAuthClient(token_endpoint_auth_method="client_secret_post").registered
    hidden = [value for each in (given, again) for key, value in each.items() if "token" in key]
    hidden = [each for each in hidden if each != "Bearer"] + [confidential["client_secret"]]
    assert len(hidden) == 5
    tables = (ToolCallRecord, AccessToken, RefreshToken, Application)
    rows = [str(row) for table in tables for row in table.objects.values()]
    assert len(rows) > 5
    assert any("whoami" in row for row in rows)
    assert written
    text = "\n".join([*written, *rows])
    assert [each for each in hidden if each in text] == []


def out_of_order(*args: Any, **kwargs: Any) -> bool:
    raise RuntimeError("out of order")


def test_secrets_are_not_in_error_reports(
    oauth: OAuthClient, settings: Any, written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = oauth.log_in()
    code = answered(oauth.decide(oauth.ask()))["code"]
    if django.VERSION >= (6, 1):
        # The older settings are deprecated and cannot be combined with it.
        settings.MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
    settings.ADMINS = ["ada@example.com"] if django.VERSION >= (6, 0) else [("", "ada@example.com")]
    for name in ("authenticate_client_id", "validate_bearer_token"):
        monkeypatch.setattr(OAuth2Validator, name, out_of_order)
    oauth.http.raise_request_exception = False
    body = {"token": given["refresh_token"], "client_id": oauth.client_id}
    pages = [
        oauth.exchange(code),
        oauth.refresh(given["refresh_token"]),
        oauth.http.post("/oauth/revoke/", body, secure=True),
    ]
    client = client_with(given["access_token"])
    with pytest.raises(MCPError):
        client.list_tools()
    assert [page.status_code for page in pages] == [500] * 3
    assert len(mail.outbox) == 3
    reports = [f"{each.subject} {each.body} {each.alternatives}" for each in mail.outbox]
    assert all("out of order" in each for each in reports)
    answers = [str(page.content) for page in (*pages, client.response)]
    text = "\n".join([*reports, *answers, *written])
    hidden = [code, oauth.verifier, given["refresh_token"], given["access_token"]]
    assert [each for each in hidden if each in text] == []


@pytest.mark.django_db(transaction=True)
def test_client_use_is_queried_once_a_minute(user: Any) -> None:
    # Uses within a transaction are not remembered, because it might be rolled back.
    client = Application.objects.create(name="c", client_type="public", user=user)
    tokens = [issued(user, application=client) for _ in range(2)]

    def queries(token: str) -> int:
        with CaptureQueriesContext(connection) as asked:
            client_with(token).call_tool("whoami")
        table = f'"{ClientUse._meta.db_table}"'
        return len([each for each in asked if table in each["sql"]])

    assert queries(tokens[0]) > 1
    first = ClientUse.objects.get()
    assert [queries(tokens[0]) for _ in range(3)] == [0, 0, 0]
    # One query for another token, as after a reconnect.
    assert [queries(tokens[1]) for _ in range(2)] == [1, 0]
    ClientUse.objects.all().delete()
    assert queries(issued(user, application=client)) > 1
    assert ClientUse.objects.get().last_used_at > first.last_used_at
    ToolCallRecord.objects.all().delete()


@pytest.mark.django_db(transaction=True)
def test_client_use_is_accurate_to_the_minute(user: Any) -> None:
    client = Application.objects.create(name="c", client_type="public", user=user)
    secret = issued(user, application=client)
    client_with(secret).call_tool("whoami")
    # As if another process had written it 59.5 seconds ago.
    written = timezone.now() - timedelta(seconds=59.5)
    ClientUse.objects.update(last_used_at=written)
    other = issued(user, application=client)
    client_with(other).call_tool("whoami")
    assert ClientUse.objects.get().last_used_at == written
    time.sleep(0.6)
    client_with(other).call_tool("whoami")
    assert ClientUse.objects.get().last_used_at > written
    ToolCallRecord.objects.all().delete()


@pytest.mark.parametrize("password", ["right", "wrong", ""])
def test_passwords_are_only_checked_for_the_password_grant(password: str, user: Any) -> None:
    user.set_password("right")
    user.save()
    sent = {"grant_type": "password", "username": user.username, "password": password}
    client = OAuthClient(user)
    response = Client().post("/oauth/token/", {**sent, "client_id": client.client_id}, secure=True)
    expected = (400, "invalid_request" if not password else "unauthorized_client")
    assert (response.status_code, response.json()["error"]) == expected
