"""The official Python client logs in to the newsroom over HTTP, with a browser."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from oauth2_provider.models import AccessToken, Application, RefreshToken

from mcp_bridge.models import ToolCallRecord
from mcp_bridge.models.outcomes import Outcome
from mcp_bridge.testing import MCPClient, MCPError
from testproject.authorization import authorization
from testproject.demo.client import Visitor, visit
from testproject.demo.login import Browser, Memory, login
from testproject.newsroom.models import Article, Section
from testproject.newsroom.seeding.users import PASSWORD, seed_users
from testproject.settings import MCP_BRIDGE
from tests.clients.logins import CLAUDE_CODE

pytestmark = pytest.mark.alone

ERAS = {"auto": "2026-07-28", "legacy": "2025-11-25"}
DRAFT = {
    "title": "A light at sea",
    "section": "local",
    "body": "It turns all night, and nobody is there.",
}


@pytest.fixture(autouse=True, scope="module")
def oauth_site() -> None:
    """Overrides the site of this folder: these tests use the newsroom."""


@pytest.fixture(autouse=True)
def url(transactional_db: None, live_server: Any, settings: Any) -> Any:
    """The newsroom's endpoint on a live server."""
    for name, value in authorization(live_server.url, MCP_BRIDGE).items():
        setattr(settings, name, value)
    seed_users()
    Section.objects.create(name="Local", slug="local")
    yield f"{live_server.url}/mcp"
    ToolCallRecord.objects.all().delete()


@pytest.fixture
def browser() -> Browser:
    return Browser("editor", PASSWORD)


def query_of(url: str) -> dict[str, str]:
    return {name: each for name, (each,) in parse_qs(urlsplit(url).query).items()}


def connected(
    auth: OAuthClientProvider, act: Callable[[Visitor], Any], *, mode: str = "auto"
) -> Any:
    """Return the result of acting with a client that has only an address and a browser."""

    async def run() -> Any:
        async with visit(auth.context.server_url, mode, auth, lambda _: None) as visitor:
            return await act(visitor)

    return asyncio.run(run())


async def whoami(visitor: Visitor) -> Any:
    return await visitor.call("desk_whoami")


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("method", ["none", "client_secret_post", "client_secret_basic"])
def test_client_registers_and_logs_in(url: str, browser: Browser, method: str, mode: str) -> None:
    auth = login(url, browser, token_endpoint_auth_method=method)
    me = connected(auth, whoami, mode=mode)
    assert (me["username"], me["revision"]) == ("editor", ERAS[mode])
    application = Application.objects.get()
    kind = "public" if method == "none" else "confidential"
    assert (application.client_type, application.registration_source) == (kind, "dcr")
    asked = query_of(browser.asked[0])
    assert (asked["resource"], asked["scope"]) == (url, "news:read")
    assert asked["code_challenge_method"] == "S256"
    token = AccessToken.objects.get()
    assert (token.user.get_username(), token.resource) == ("editor", [url])


@pytest.mark.parametrize("mode", ERAS)
def test_client_with_a_document_logs_in(
    url: str, browser: Browser, settings: Any, mode: str
) -> None:
    fetcher = {"CIMD_METADATA_FETCHER": "tests.oauth.documents.Documents"}
    settings.OAUTH2_PROVIDER = settings.OAUTH2_PROVIDER | fetcher
    callback = "http://localhost:45099/callback"
    auth = login(url, browser, client_metadata_url=CLAUDE_CODE, redirect_uris=[callback])
    assert connected(auth, whoami, mode=mode)["username"] == "editor"
    application = Application.objects.get()
    assert (application.client_id, application.registration_source) == (CLAUDE_CODE, "cimd")
    assert browser.url.startswith(f"{callback}?")


def test_expired_token_is_refreshed_without_the_user(url: str, browser: Browser) -> None:
    memory = Memory()
    auth = login(url, browser, memory)

    async def an_hour_passes(visitor: Visitor) -> Any:
        await visitor.call("desk_whoami")
        first = memory.tokens
        auth.context.token_expiry_time = time.time() - 1
        await AccessToken.objects.aupdate(expires=timezone.now())
        return first, await visitor.call("desk_whoami")

    first, me = connected(auth, an_hour_passes)
    assert me["username"] == "editor"
    assert len(browser.asked) == 1
    assert memory.tokens.access_token != first.access_token
    assert memory.tokens.refresh_token != first.refresh_token
    assert {*map(tuple, AccessToken.objects.values_list("resource", flat=True))} == {(url,)}
    assert RefreshToken.objects.filter(revoked=None).count() == 1


def test_tool_runs_after_the_user_grants_its_scope(url: str, browser: Browser) -> None:
    async def draft(visitor: Visitor) -> Any:
        await visitor.call("desk_whoami")
        return await visitor.call("articles_draft", **DRAFT)

    assert connected(login(url, browser), draft)["status"] == "draft"
    assert [query_of(each)["scope"] for each in browser.asked] == [
        "news:read",
        "news:read news:write",
    ]
    assert Article.objects.count() == 1


def test_tool_does_not_run_if_its_scope_is_denied(url: str, browser: Browser) -> None:
    async def draft(visitor: Visitor) -> None:
        await visitor.call("desk_whoami")
        browser.button = "Deny"
        await visitor.call("articles_draft", **DRAFT)

    with pytest.RaisesGroup(OAuthFlowError, flatten_subgroups=True):
        connected(login(url, browser), draft)
    assert query_of(browser.url)["error"] == "access_denied"
    assert not Article.objects.exists()


@pytest.mark.parametrize("mode", ERAS)
def test_denied_client_receives_the_issuer(url: str, mode: str) -> None:
    browser = Browser("editor", PASSWORD, button="Deny")
    # If the issuer were missing or wrong, the client would report that instead.
    said = pytest.RaisesExc(OAuthFlowError, match="No authorization code received")
    with pytest.RaisesGroup(said, flatten_subgroups=True):
        connected(login(url, browser), whoami, mode=mode)
    told = query_of(browser.url)
    assert (told["error"], told["iss"]) == ("access_denied", url.removesuffix("/mcp"))
    assert not AccessToken.objects.exists()


async def revoke(url: str, token: str) -> None:
    client = await Application.objects.aget()
    data = {"token": token, "client_id": client.client_id}
    async with httpx2.AsyncClient(trust_env=False) as http:
        answer = await http.post(urljoin(url, "/oauth/revoke/"), data=data)
    assert answer.status_code == 200


async def disconnect(url: str, token: str) -> None:
    client = await Application.objects.aget()
    browser = Client()
    await browser.aforce_login(await get_user_model().objects.aget(username="editor"))
    data = {"client_id": client.client_id}
    answer = await sync_to_async(browser.post)("/mcp/connections/", data)
    assert answer.status_code == 302


async def deactivate(url: str, token: str) -> None:
    await get_user_model().objects.filter(username="editor").aupdate(is_active=False)


# The client asks its user again, who now denies access or can no longer log in.
@pytest.mark.parametrize(
    ("end", "error"),
    [(revoke, OAuthFlowError), (disconnect, OAuthFlowError), (deactivate, RuntimeError)],
)
def test_revoked_access_ends_with_the_next_request(
    url: str, browser: Browser, end: Callable[[str, str], Any], error: type[Exception]
) -> None:
    memory = Memory()

    async def act(visitor: Visitor) -> None:
        await visitor.call("desk_whoami")
        await end(url, memory.tokens.access_token)
        browser.button = "Deny"
        await visitor.call("desk_whoami")

    with pytest.RaisesGroup(error, flatten_subgroups=True):
        connected(login(url, browser, memory), act)
    assert len(browser.asked) == 2
    assert ToolCallRecord.objects.filter(tool="desk_whoami", outcome=Outcome.SUCCEEDED).count() == 1
    with pytest.raises(MCPError, match="credential is not valid"):
        MCPClient(token=memory.tokens.access_token).list_tools()
