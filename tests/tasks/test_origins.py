"""The caller's credential, language, time zone, host and toolset hold in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.urls import path
from django.utils import timezone, translation
from modernrpc import RpcRequestContext
from modernrpc.server import RpcServer
from oauth2_provider.models import AccessToken, Application

from mcp_bridge import Context, mcp_tool
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.tasks.working import work
from mcp_bridge.testing import MCPClient, text_of
from mcp_bridge.testing.serving import route, serve
from mcp_bridge.tokens.models import Token
from tests.tasks.world import CAPABILITIES, begun, follower, run_waiting, state


def place(context: Context) -> list[str]:
    """Return the surroundings of the call."""
    return [
        translation.get_language() or "",
        str(timezone.get_current_timezone()),
        context.absolute_url("/x"),
        str(getattr(context.auth, "pk", None)),
        str(context.request),
        context.remote_address,
    ]


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    serve(settings, place, task=True)


def result(client: MCPClient, key: str) -> Any:
    run_waiting()
    found = state(client, key)["result"]
    return text_of(found) if found["isError"] else found["structuredContent"]["result"]


def test_language_time_zone_and_host_hold(settings: Any, user: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    settings.ALLOWED_HOSTS = ["news.example"]
    client = follower(user, host="news.example")
    client.headers["Accept-Language"] = "de"
    with timezone.override("Asia/Tokyo"):
        key = begun(client, "place")
    found = result(client, key)
    assert found[:3] == ["de", "Asia/Tokyo", "http://news.example/x"]
    assert found[4:] == ["None", "127.0.0.1"]


@pytest.mark.parametrize("end", ["revoked", "expired", "deleted", ""])
def test_ended_token_runs_nothing(user: Any, end: str) -> None:
    token, secret = Token.objects.issue(user=user, name="t")
    client = MCPClient(token=secret, capabilities=CAPABILITIES)
    key = begun(client, "place")
    past = timezone.now() - timedelta(seconds=1)
    if end == "deleted":
        token.delete()
    elif end:
        name = "revoked_at" if end == "revoked" else "expires_at"
        Token.objects.filter(pk=token.pk).update(**{name: past})
    found = result(follower(user), key)
    assert ("has been revoked, or has expired" in found) is bool(end)


@pytest.fixture
def knox_tokens(transactional_db: None, settings: Any) -> Iterator[Any]:
    """The model of knox's tokens, with its table."""
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "knox"]
    settings.MCP_BRIDGE = {"AUTHENTICATION_CLASSES": ["knox.auth.TokenAuthentication"]}
    model = import_module("knox.models").AuthToken
    with connection.schema_editor() as editor:
        editor.create_model(model)
    yield model
    with connection.schema_editor() as editor:
        editor.delete_model(model)
    # An app that is installed registers its models.
    admin.site._registry.pop(model, None)


@pytest.mark.parametrize("seconds", [-1, 60, None])
def test_expired_token_of_knox_runs_nothing(
    knox_tokens: Any, user: Any, seconds: int | None
) -> None:
    _, secret = knox_tokens.objects.create(user, timedelta(hours=1))
    client = MCPClient(capabilities=CAPABILITIES)
    client.headers["Authorization"] = f"Token {secret}"
    key = begun(client, "place")
    ends = None if seconds is None else timezone.now() + timedelta(seconds=seconds)
    knox_tokens.objects.update(expiry=ends)
    found = result(follower(user), key)
    assert ("has been revoked, or has expired" in found) is (seconds == -1)


def test_narrowed_token_runs_nothing(user: Any) -> None:
    token, secret = Token.objects.issue(user=user, name="t")
    key = begun(MCPClient(token=secret, capabilities=CAPABILITIES), "place")
    Token.objects.filter(pk=token.pk).update(tools="other")
    assert "may no longer use the tool" in result(follower(user), key)


@pytest.mark.parametrize("end", ["", "renewed", "widened", "elsewhere", "expired", "revoked"])
@pytest.mark.parametrize("grant", ["code", "client credentials"])
def test_renewed_oauth_token_runs_the_task(user: Any, end: str, grant: str) -> None:
    application = Application.objects.create(
        **{"name": "claude", "client_type": "public", "authorization_grant_type": "x"}
    )

    def issue(text: str, scope: str = "read", resource: str = "/mcp") -> AccessToken:
        expires = timezone.now() + timedelta(hours=1)
        given = {"application": application, "scope": scope, "expires": expires}
        given["resource"] = [f"https://news.example{resource}"]
        # A token of client credentials does not have a user itself.
        owner = user if grant == "code" else None
        return AccessToken.objects.create(user=owner, token=text, **given)

    first = issue("first")
    client = follower(user)
    client.http.force_authenticate(user, first)
    key = begun(client, "place")
    if end == "expired":
        AccessToken.objects.update(expires=timezone.now())
    elif end:
        first.delete()
    now = issue("second") if end == "renewed" else first
    if end == "widened":
        issue("third", "read write")
    if end == "elsewhere":
        issue("fourth", resource="/other")
    found = result(follower(user), key)
    if end in ("expired", "revoked", "widened", "elsewhere"):
        assert "has been revoked, or has expired" in found
    else:
        assert found[3] == str(now.pk)


@pytest.mark.parametrize("seconds", [60, -60])
def test_jwt_counts_until_it_expires(user: Any, seconds: int) -> None:
    from mcp_bridge.ext.jwt.authentication import AccessToken as JWTToken

    expires = (datetime.now(UTC) + timedelta(seconds=seconds)).timestamp()
    limits = frozenset({"https://news.example/mcp"}), frozenset({"read"})
    auth = JWTToken({"iss": "x", "sub": "1", "exp": expires}, "claude", *limits)
    client = follower(user)
    client.http.force_authenticate(user, auth)
    found = result(follower(user), begun(client, "place"))
    assert ("has expired" in found) is (seconds < 0)


def test_time_zone_without_a_name_holds(user: Any) -> None:
    with timezone.override(timezone.get_fixed_timezone(150)):
        key = begun(follower(user), "place")
    assert result(follower(user), key)[1] == "+0230"


def test_call_without_a_keepable_caller_runs_at_once(settings: Any, user: Any) -> None:
    class Stranger:
        """A credential that is stored nowhere."""

    client = follower(user)
    client.http.force_authenticate(user, Stranger())
    assert client.call_tool("place")["isError"] is False
    serve(settings, place, task="required")
    told = text_of(client.call_tool("place"))
    assert "place runs only as a task, for which its credential, a Stranger" in told
    assert not McpTask.objects.exists()


def test_toolset_of_the_request_holds(settings: Any, user: Any) -> None:
    settings.MCP_BRIDGE = {"TOOLSETS": {"one": ["place"], "other": ["nothing"]}}
    client = follower(user)
    client.headers["X-MCP-Toolset"] = "one"
    keys = [begun(client, "place") for _ in range(3)]
    settings.MCP_BRIDGE = {"TOOLSETS": {"one": ["other"]}}
    work(keys[1])
    settings.MCP_BRIDGE = {}
    work(keys[2])
    plain = follower(user)
    told = [text_of(state(plain, key)["result"]) for key in keys[1:]]
    assert "its user may no longer use the tool" in told[0]
    assert "its toolset no longer exists" in told[1]
    settings.MCP_BRIDGE = {"TOOLSETS": {"one": ["place"]}}
    assert result(plain, keys[0])[0] == "en"


def test_procedure_has_a_request_of_its_user(settings: Any, user: Any) -> None:
    server = RpcServer(register_system_procedures=False)

    @server.register_procedure(
        auth=lambda request: request.user.username == "ada", context_target="ctx"
    )
    @mcp_tool(task=True)
    def who(*, ctx: RpcRequestContext) -> list[str]:
        """Return the caller, and an address."""
        return [ctx.request.user.username, ctx.request.build_absolute_uri("/x")]

    settings.ALLOWED_HOSTS = ["news.example"]
    route(settings, path("rpc", server.view))
    client = follower(user, host="news.example")
    assert result(client, begun(client, "who")) == ["ada", "http://news.example/x"]
