"""The pages to authorize and disconnect clients, in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.urls import include, path
from oauth2_provider.models import get_application_model
from playwright.sync_api import Page

from mcp_bridge import oauth
from mcp_bridge.models import ToolSetting
from mcp_bridge.oauth.models import ClientUse, mark_used
from mcp_bridge.testing.serving import route
from testproject.newsroom.procedures import server
from tests.browser.conftest import SCHEMES, check, missed_by_the_keyboard
from tests.browser.test_admin import Visit
from tests.oauth.browsing import CONNECTIONS, address, browser_of, connect, register

WIDTHS = (1280, 390)
SCOPES = {
    "articles:read": "Read articles, comments and statistics",
    "articles:write": "Write articles and send them to the desk",
}
CURSOR = "cursor://anysphere.cursor-mcp/oauth/callback"
LOCAL = "http://localhost:33418/callback"
CONNECTED = "/admin/mcp_bridge_oauth/clientuse/"


@pytest.fixture(autouse=True)
def with_oauth(newsroom: None, settings: Any, live_server: Any) -> str:
    """The newsroom as its own authorization server, with scopes set by its administrator."""
    resource = f"{live_server.url}/mcp"
    settings.MCP_BRIDGE = {
        "SERVER_INFO": {"name": "newsroom", "title": "The Newsroom", "version": "1.0"},
        "RESOURCE": resource,
        "AUTHORIZATION_SERVERS": [live_server.url],
        "SCOPES": SCOPES,
    }
    settings.OAUTH2_PROVIDER = oauth.settings(issuer=live_server.url, resource=resource)
    settings.LOGIN_URL = "/admin/login/"
    route(
        settings,
        path("rpc", server.view),
        path("admin/", admin.site.urls),
        path("mcp/tokens/", include("mcp_bridge.tokens.urls")),
        path("", include("mcp_bridge.oauth.urls")),
    )
    # The first request that reads the registry creates the rows.
    browser_of("editor").get(
        address(register(client_id="x"), scope="articles:read", resource=resource)
    )
    for setting in ToolSetting.objects.all():
        reads = setting.name.rpartition("_")[2] in ("list", "get", "search", "table", "chart")
        ToolSetting.objects.filter(pk=setting.pk).update(
            scopes="articles:read" if reads else "articles:write"
        )
    ToolSetting.objects.first().save()  # type: ignore[union-attr]
    return resource


def asked(client: Any, resource: str) -> str:
    return address(client, scope=" ".join(SCOPES), resource=resource)


def claude_code() -> Any:
    return register(
        name="Claude Code",
        client_id="https://claude.ai/oauth/claude-code-client-metadata",
        registration_source="cimd",
        redirect_uris=LOCAL,
    )


def connected(resource: str) -> None:
    """Create the connections that an editor has after a while."""
    editor = get_user_model().objects.get(username="editor")
    clients = (
        register(name="Claude", registration_source="manual"),
        register(name="Cursor", client_id="cursor", redirect_uris=f"{LOCAL} {CURSOR}"),
        claude_code(),
    )
    for client, scopes in zip(clients, [" ".join(SCOPES), *SCOPES], strict=True):
        connect(browser_of("editor"), client, scope=scopes, resource=resource)
        mark_used(editor, client)
    ClientUse.objects.filter(application=client).delete()


def answer(page: Page, button: str) -> str:
    """Press a button, and return the address that the browser is sent to."""
    page.route(f"{LOCAL}*", lambda route: route.fulfill(body="You may close this page."))
    page.get_by_role("button", name=button, exact=True).click()
    page.get_by_text("You may close this page.").wait_for()
    return page.url


def test_client_is_authorized_and_then_disconnected(
    visit: Visit, with_oauth: str, live_server: Any
) -> None:
    client = claude_code()
    page = visit(asked(client, with_oauth), "editor")
    page.get_by_role("heading", name="Allow Claude Code to use The Newsroom?").wait_for()
    assert "error=access_denied" in answer(page, "Deny")
    page.goto(live_server.url + asked(client, with_oauth))
    assert f"{LOCAL}?code=" in answer(page, "Allow")
    connect(browser_of("editor"), client, scope="articles:read", resource=with_oauth)
    page.goto(live_server.url + CONNECTIONS)
    page.get_by_role("button", name="Disconnect Claude Code").click()
    question = page.get_by_role("dialog", name="Disconnect “Claude Code”?")
    check(page, "disconnecting")
    question.get_by_role("button", name="Disconnect Claude Code").click()
    page.get_by_text("Claude Code was disconnected").wait_for()
    page.get_by_text("No application is connected.").wait_for()
    check(page, "disconnected")


def test_consent_page_lets_another_user_log_in(visit: Visit, with_oauth: str) -> None:
    page = visit(asked(claude_code(), with_oauth), "editor")
    page.get_by_role("button", name="Not you? Log out").click()
    page.get_by_role("button", name="Log in").wait_for()
    assert "/admin/login/?next=/oauth/authorize/" in page.url


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_are_legible_and_accessible(
    visit: Visit, with_oauth: str, width: int, scheme: Any
) -> None:
    connected(with_oauth)
    long = register(name="W" * 255, client_id="long", redirect_uris=f"https://{'a' * 60}.example/")
    pages = {
        "consent": asked(get_application_model().objects.get(name="Claude Code"), with_oauth),
        "consent-long": asked(long, with_oauth),
        "connections": CONNECTIONS,
        "tokens-with-login": "/mcp/tokens/",
        "admin-connected": CONNECTED,
        "admin-scopes": "/admin/mcp_bridge/scope/",
    }
    for name, each in pages.items():
        user = "admin" if each.startswith("/admin/") else "editor"
        page = visit(each, user, width=width, scheme=scheme)
        check(page, name)
        # The arrow keys move through tabs.
        assert all('role="tab"' in each for each in missed_by_the_keyboard(page))


@pytest.mark.parametrize("width", WIDTHS)
def test_administrator_disconnects_an_application(
    visit: Visit, with_oauth: str, width: int
) -> None:
    connected(with_oauth)
    page = visit(CONNECTED, width=width)
    page.get_by_role("link", name="Disconnect Cursor from editor").click()
    page.get_by_role("heading", name="Disconnect Cursor from editor?").wait_for()
    check(page, "admin-disconnect")
    assert missed_by_the_keyboard(page) == []
    page.get_by_role("button", name="Disconnect").click()
    page.get_by_text("Cursor was disconnected. It can no longer act as editor.").wait_for()
    page.get_by_role("heading", name="2 connected applications").wait_for()
