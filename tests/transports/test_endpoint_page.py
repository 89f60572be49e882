"""The page at the endpoint for a person with a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.template import engines
from django.test import Client, RequestFactory
from django.urls import include, path

from mcp_bridge.testing.serving import route, serve
from tests.support.toolsets import serve_toolsets

pytestmark = pytest.mark.django_db
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
OAUTH = {
    "RESOURCE": "https://example.com/mcp",
    "AUTHORIZATION_SERVERS": ["https://example.com"],
}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def page(client: Client | None = None, address: str = "/mcp", **headers: str) -> str:
    response = (client or Client()).get(address, headers=BROWSER | headers)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert response.headers["Cache-Control"] == "private, no-store"
    return response.content.decode()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_browser_reads_how_to_connect(settings: Any, asynchronous: bool) -> None:
    settings.MCP_BRIDGE = {"SERVER_INFO": {"name": "shop", "title": "The shop"}}
    serve_toolsets(settings, {}, asynchronous=asynchronous)
    found = page()
    assert "<h1>Connect to The shop</h1>" in found
    assert "http://testserver/mcp<" in found
    assert found.count('<section id="mcp-') == 8
    assert 'href="cursor://' in found
    assert 'href="vscode:mcp/install?' in found


def test_page_requires_login_before_it_shows_tokens(settings: Any) -> None:
    settings.MCP_BRIDGE = OAUTH
    serve(settings, add)
    found = page()
    assert found.index("on which you log in") < found.index("needs a token")
    assert "https://example.com/mcp<" in found
    assert found.index("<h3>Log in</h3>") < found.index("<h3>With a token</h3>")


def test_anonymous_page_names_no_tool(settings: Any, user: Any) -> None:
    serve(settings, add, title="Add up", public=True)
    assert "Add up" not in page()
    client = Client()
    client.force_login(user)
    assert "1 tool for you" in (found := page(client))
    assert "<code>add</code> Add up" in found
    assert "Signed in as ada" in found


def test_page_links_to_own_tokens_and_connections(settings: Any, user: Any) -> None:
    route(
        settings,
        path("mcp/tokens/", include("mcp_bridge.tokens.urls")),
        path("", include("mcp_bridge.oauth.urls")),
    )
    client = Client()
    client.force_login(user)
    found = page(client)
    assert 'href="/mcp/tokens/">My tokens' in found
    assert 'href="/mcp/connections/">My connected applications' in found
    assert "Sign in to create a token" in page()


@pytest.mark.parametrize(
    ("included", "linked"),
    [
        ([], []),
        (["tokens"], ["/mcp/tokens/"]),
        (["oauth"], ["/mcp/connections/"]),
        (["tokens", "oauth"], ["/mcp/tokens/", "/mcp/connections/"]),
    ],
)
def test_menu_links_the_pages_of_the_site(
    included: list[str], linked: list[str], settings: Any, user: Any
) -> None:
    places = {"tokens": "mcp/tokens/", "oauth": ""}
    urls = [path(places[each], include(f"mcp_bridge.{each}.urls")) for each in included]
    route(settings, *urls)
    request = RequestFactory().get("/")
    menu = engines["django"].from_string("{% load mcp_bridge %}{% mcp_menu %}")
    request.user = AnonymousUser()
    assert menu.render({}, request).strip() == ""
    request.user = user
    assert re.findall('href="([^"]*)"', menu.render({}, request)) == linked


def test_page_of_a_toolset_has_its_address(settings: Any) -> None:
    serve_toolsets(settings, {"reading": ["*"]})
    assert "http://testserver/mcp/reading<" in page(address="/mcp/reading")


def test_page_is_in_the_language_of_the_browser(settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    assert 'lang="de"' in page(**{"Accept-Language": "de"})


def test_site_overrides_the_page(settings: Any, tmp_path: Path) -> None:
    folder = tmp_path / "mcp_bridge"
    folder.mkdir()
    (folder / "endpoint.html").write_text(
        "{% load mcp_bridge %}{% mcp_endpoint %}Ask {{ connection.url }}"
    )
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]
    assert page() == "Ask http://testserver/mcp"


def test_site_without_templates_has_no_page(settings: Any) -> None:
    settings.TEMPLATES = []
    assert Client().get("/mcp", headers=BROWSER).status_code == 405


@pytest.mark.parametrize("accept", ["text/event-stream", "*/*", "application/json", ""])
def test_clients_that_are_not_browsers_are_refused(accept: str) -> None:
    assert Client().get("/mcp", headers={"Accept": accept}).status_code == 405
