"""A client of OAuth and the browser of its user, on the real pages and addresses."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.conf import settings
from django.contrib.admin import AdminSite
from django.contrib.auth import get_user_model
from django.contrib.auth.views import LoginView
from django.test import Client
from django.test.utils import override_settings
from django.urls import include, path
from oauth2_provider.models import get_application_model

from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.serving import route
from tests.oauth.conftest import RESOURCE
from tests.support.page import Page
from tests.support.site import server

VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().strip("=")
CALLBACK = "https://claude.ai/api/mcp/auth_callback"
CONNECTIONS = "/mcp/connections/"


def serve_admin(settings: Any, site: AdminSite) -> None:
    """Serve an admin site beside the pages of OAuth, for the rest of the test."""
    login = LoginView.as_view(template_name="admin/login.html")
    route(
        settings,
        path("rpc", server.view),
        path("admin/", site.urls),
        path("login/", login, name="login"),
        path("", include("mcp_bridge.oauth.urls")),
    )


def register(**values: Any) -> Any:
    """Return a public client, dynamically registered unless the values say otherwise."""
    defaults = {
        "name": "Claude",
        "client_type": "public",
        "authorization_grant_type": "authorization-code",
        "redirect_uris": CALLBACK,
        "registration_source": "dcr",
    }
    return get_application_model().objects.create(**{**defaults, **values})


def browser_of(username: str = "ada", **options: Any) -> Client:
    users = get_user_model().objects
    browser = Client(**options)
    browser.force_login(users.filter(username=username).first() or users.create_user(username))
    return browser


def address(client: Any, **values: str) -> str:
    """Return the address that a client sends its user to."""
    query = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": client.redirect_uris.split()[0],
        "scope": "mcp",
        "state": "xyz",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "resource": RESOURCE,
    }
    return f"/oauth/authorize/?{urlencode({**query, **values})}"


def text_of(page: Any) -> str:
    """Return the visible text of a page on one line."""
    body = re.sub(r"</?(a|bdi|span|strong)\b[^>]*>", "", page.content.decode())
    body = re.sub(r"(?s)<head>.*?</head>|<[^>]*>", " ", body)
    return " ".join(html.unescape(body).split())


def sent_by(page: Any, css_class: str) -> dict[str, str]:
    """Return the hidden fields of the form of a class."""
    fields: dict[str, str] = {}
    form = None
    for tag, attrs in Page(page.content.decode()).tags:
        form = attrs.get("class") if tag == "form" else form
        if tag == "input" and form == css_class:
            fields[attrs["name"]] = attrs.get("value", "")
    return fields


def decide(browser: Client, client: Any, *, allow: bool, **values: str) -> dict[str, str]:
    """Read the consent page, press a button, and return the query that the client receives."""
    page = browser.get(address(client, **values))
    assert page.status_code == 200, page.content
    button = {"allow": "true"} if allow else {}
    answer = browser.post(page.request["PATH_INFO"], sent_by(page, "mcp-decision") | button)
    assert answer.status_code == 302, answer.content
    return {name: each for name, (each,) in parse_qs(urlsplit(answer["Location"]).query).items()}


def ask_for_token(client: Any, **values: str) -> dict[str, Any]:
    data = {"client_id": client.client_id, **values}
    answer: dict[str, Any] = Client().post("/oauth/token/", data).json()
    return answer


def redeem(client: Any, code: str) -> dict[str, Any]:
    """Return what the client receives for a code."""
    return ask_for_token(
        client,
        grant_type="authorization_code",
        code=code,
        redirect_uri=client.redirect_uris.split()[0],
        code_verifier=VERIFIER,
    )


def connect(browser: Client, client: Any, **values: str) -> dict[str, Any]:
    """Return the tokens of a client that the user of a browser has authorized."""
    return redeem(client, decide(browser, client, allow=True, **values)["code"])


def assert_no_query_for_each_client(browser: Client, page: str, counting: Any) -> None:
    """Assert that a page takes as many queries with six clients connected as with one."""

    def count() -> int:
        with counting(50, exact=False) as queries:
            browser.get(page)
        return len(queries)

    # STATE_MAX_AGE keeps the queries of the administrators' settings out of the count.
    lasting = {**settings.MCP_BRIDGE, "STATE_MAX_AGE": 3600}
    with override_settings(MCP_BRIDGE=lasting):
        connect(browser, register(client_id="first"))
        few = count()
        for number in range(5):
            connect(browser, register(client_id=f"client{number}"))
        assert count() == few


def refresh(client: Any, tokens: dict[str, Any]) -> dict[str, Any]:
    return ask_for_token(client, grant_type="refresh_token", refresh_token=tokens["refresh_token"])


def is_let_in(tokens: dict[str, Any]) -> bool:
    """Return whether the endpoint takes the access token of a client."""
    client = MCPClient(token=tokens["access_token"])
    try:
        client.list_tools()
    except MCPError:
        assert client.response.status_code == 401
        return False
    return True
