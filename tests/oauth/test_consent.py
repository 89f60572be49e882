"""The page on which a user authorizes a client or denies access."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.auth.views import LoginView
from django.db import connection
from django.test import Client
from django.urls import include, path
from modernrpc.server import RpcServer
from oauth2_provider.models import get_access_token_model, get_grant_model

import mcp_bridge.oauth
from mcp_bridge import mcp_tool
from mcp_bridge.testing.serving import route
from tests.oauth.browsing import (
    CALLBACK,
    CONNECTIONS,
    address,
    browser_of,
    connect,
    decide,
    register,
    sent_by,
    text_of,
)
from tests.oauth.conftest import MCP_BRIDGE
from tests.support.page import Page

TEMPLATES = Path(mcp_bridge.oauth.__file__).parent / "templates"


def serve(settings: Any, **scopes: Any) -> None:
    """Serve tools of these names, each with the options of its mark, beside the pages."""
    server = RpcServer(register_system_procedures=False)
    for name, options in scopes.items():

        def procedure() -> str:
            """Do something."""
            return "done"

        server.register_procedure(mcp_tool(**options)(procedure), name=name)
    login = LoginView.as_view(template_name="admin/login.html")
    route(
        settings,
        path("rpc", server.view),
        path("login/", login, name="login"),
        path("", include("mcp_bridge.oauth.urls")),
    )


def read(client: Any, browser: Client | None = None, **values: str) -> str:
    return text_of((browser or browser_of()).get(address(client, **values)))


def test_page_names_client_user_and_scopes() -> None:
    text = read(register(name="Claude"), scope="mcp mcp:write")
    for part in (
        "Allow Claude to use django-mcp-bridge?",
        "You will be redirected to claude.ai",
        "Use the tools of this site",
        "Change what is on this site",
        "You are ada on django-mcp-bridge.",
    ):
        assert part in text


def test_tools_of_all_scopes_together_are_counted_once(settings: Any) -> None:
    scopes = {
        "read": "Read articles",
        "write": {"description": "Write articles", "includes": ["read"]},
        "openid": "Know who you are",
    }
    settings.MCP_BRIDGE = {**MCP_BRIDGE, "SCOPES": scopes, "DEFAULT_SCOPES": ["read"]}
    serve(
        settings,
        get={"scopes": "read", "read_only": True},
        find={"scopes": "read", "read_only": True},
        publish={"scopes": ["read", "write"]},
        ping={"read_only": False},
    )
    asked = {
        "read openid": "Read articles Know who you are 3 tools, 2 of them read-only.",
        "write": "Write articles 4 tools, 2 of them read-only.",
        "read write": "Read articles Write articles 4 tools, 2 of them read-only.",
        "openid": "Know who you are 1 tool, 0 of them read-only.",
    }
    for scope, expected in asked.items():
        assert f"{expected} It calls them with your permissions." in read(register(), scope=scope)


def test_only_callable_tools_are_counted(settings: Any) -> None:
    serve(
        settings,
        get={"scopes": "mcp"},
        delete={"scopes": "mcp", "permissions": "auth.delete_group"},
        purge={"scopes": "mcp:write", "permissions": "auth.delete_group"},
    )
    client, browser = register(), browser_of("bob")
    assert "1 tool, 0 of" in read(client, browser, scope="mcp mcp:write")
    bob = get_user_model().objects.get(username="bob")
    bob.user_permissions.add(Permission.objects.get(codename="delete_group"))
    assert "3 tools, 0 of" in read(client, browser, scope="mcp mcp:write")


def test_page_says_that_no_tool_can_be_called(settings: Any) -> None:
    serve(settings, get={"scopes": "mcp:write"})
    assert "It cannot call any of the site's tools." in read(register())


UNVERIFIED = "Unverified. The application chose this name itself"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"registration_source": "manual"}, ""),
        ({"registration_source": "dcr"}, f"{UNVERIFIED}; django-mcp-bridge has not verified it"),
        (
            {"registration_source": "cimd", "client_id": "https://claude.ai/oauth/metadata"},
            f"{UNVERIFIED}, in a document at claude.ai; django-mcp-bridge has not verified it",
        ),
    ],
)
def test_only_administrators_clients_are_verified(values: dict[str, str], says: str) -> None:
    text = read(register(**values))
    assert says in text
    assert ("Unverified" in text) is bool(says)


def test_client_of_an_ordinary_user_is_unverified() -> None:
    eve = get_user_model().objects.create_user("eve")
    client = register(registration_source="manual", user=eve)
    assert "Unverified" in read(client)
    eve.user_permissions.add(Permission.objects.get(codename="add_application"))
    assert "Unverified" not in read(client)


@pytest.mark.requirement("as.host-shown")
@pytest.mark.parametrize(
    ("uri", "host", "is_local"),
    [
        (CALLBACK, "claude.ai", False),
        ("https://example.com:8443/cb", "example.com:8443", False),
        (
            f"https://claude.ai.{'a.' * 99}evil.example/",
            f"claude.ai.{'a.' * 99}evil.example",
            False,
        ),
        ("https://localhost.example.com/cb", "localhost.example.com", False),
        ("https://xn--bcher-kva.example/cb", "xn--bcher-kva.example", False),
        ("http://localhost:33418/callback", "localhost:33418", True),
        ("http://127.0.0.1:1/callback", "127.0.0.1:1", True),
        ("http://[::1]:33418/callback", "[::1]:33418", True),
        (
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "cursor://anysphere.cursor-mcp",
            True,
        ),
    ],
)
def test_page_names_the_host_or_warns_of_loopback(uri: str, host: str, is_local: bool) -> None:
    text = read(register(redirect_uris=f"{CALLBACK} {uri}"), redirect_uri=uri)
    assert f"You will be redirected to {host} " in text
    assert ("A program on your computer." in text) is is_local


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ request.user }}{% csrf_token %}",
    "evil\u202egnp.exe\u2066\u2069\u200b",
    "evil\u3164\u115f\u034f",
    "line\nbreak\r\tand\x00null\x1b[31m",
    "long " * 50,
]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("field", ["name", "client_id"])
def test_client_names_are_shown_on_one_line(name: str, field: str) -> None:
    if connection.vendor == "postgresql" or field == "client_id":
        # PostgreSQL does not store NUL, and a client cannot send such an id.
        name = name.replace("\0", "")
    client = register(**{"name": "", field: name})
    browser = browser_of()
    pages = [browser.get(address(client))]
    assert pages[0].status_code == 200
    connect(browser, register(name=name, client_id="good"))
    pages.append(browser.get(CONNECTIONS))
    for page in pages:
        heading = re.findall(r'<bdi class="mcp-name">(.*?)</bdi>', page.content.decode(), re.S)
        for shown in heading:
            assert not set("<>\"'\n\r\t\x00\x1b\u202e\u2066\u2069\u200b\u3164\u115f\u034f") & set(
                shown
            )
            assert 0 < len(shown) < 130
        assert heading
        tags = Page(page.content.decode())
        assert tags.all("script", "img", "style", "iframe") == []


def test_unnamed_client_is_shown_by_id() -> None:
    assert "Allow abc123 to use" in read(register(name=" \u202e ", client_id="abc123"))


def test_denying_redirects_with_an_error_and_grants_nothing() -> None:
    told = decide(browser_of(), register(), allow=False)
    assert (told["error"], told["state"]) == ("access_denied", "xyz")
    assert not get_grant_model().objects.exists()


def test_allowing_connects_the_client() -> None:
    tokens = connect(browser_of(), register())
    assert tokens["scope"] == "mcp"
    assert get_access_token_model().objects.get().user.username == "ada"


def test_allow_is_the_primary_button_and_comes_first() -> None:
    page = browser_of().get(address(register()))
    form = re.search(r'(?s)class="mcp-decision">(.*?)</form>', page.content.decode())
    assert form is not None
    buttons = re.findall(r"<button ([^>]*)>(\w+)</button>", form[1])
    assert [text for _, text in buttons] == ["Allow", "Deny"]
    assert ["mcp-primary" in attributes for attributes, _ in buttons] == [True, False]


def test_consent_requires_a_csrf_token() -> None:
    client, browser = register(), browser_of(enforce_csrf_checks=True)
    page = browser.get(address(client))
    fields = sent_by(page, "mcp-decision") | {"allow": "true"}
    token = fields.pop("csrfmiddlewaretoken")
    assert browser.post("/oauth/authorize/", fields).status_code == 403
    assert not get_grant_model().objects.exists()
    allowed = browser.post("/oauth/authorize/", fields | {"csrfmiddlewaretoken": token})
    assert allowed.status_code == 302
    assert get_grant_model().objects.count() == 1


def test_switching_user_returns_to_the_request() -> None:
    client, browser = register(), browser_of(enforce_csrf_checks=True)
    asked = address(client)
    answer = browser.post(f"{CONNECTIONS}log-out/", sent_by(browser.get(asked), "mcp-user"))
    assert (answer.status_code, answer["Location"]) == (302, asked)
    assert browser.get(asked)["Location"].startswith("/login/?next=/oauth/authorize/")


def test_logging_out_does_not_redirect_to_other_sites() -> None:
    answer = browser_of().post(f"{CONNECTIONS}log-out/", {"next": "https://evil.example/"})
    assert answer["Location"] == CONNECTIONS


@pytest.mark.parametrize(
    "uri",
    [
        "https://bücher.example/cb",
        "https://evil.example\\.bank.example/cb",
        "https://bank.example@evil.example/cb",
        "http://[::1/cb",
    ],
)
def test_ambiguous_redirect_host_is_refused(uri: str) -> None:
    client, browser = register(redirect_uris=f"{CALLBACK} {uri}"), browser_of()
    assert "This request cannot be authorized" in read(client, browser, redirect_uri=uri)
    connect(browser, client)
    assert browser.get(CONNECTIONS).status_code == 200


@pytest.mark.parametrize(
    "values",
    [
        {"client_id": "nobody"},
        {"redirect_uri": "https://evil.example/<script>alert(1)</script>"},
    ],
)
def test_invalid_request_is_an_error_page(values: dict[str, str]) -> None:
    page = browser_of().get(address(register(), **values))
    assert page.status_code == 400
    assert "This request cannot be authorized" in text_of(page)
    assert Page(page.content.decode()).all("form", "script") == []
    assert "evil" not in text_of(page)


def test_tampered_form_is_refused() -> None:
    browser = browser_of()
    fields = sent_by(browser.get(address(register())), "mcp-decision") | {"allow": "true"}
    page = browser.post("/oauth/authorize/", fields | {"redirect_uri": ""})
    assert "This request cannot be authorized" in text_of(page)
    assert not get_grant_model().objects.exists()


@pytest.mark.parametrize("asked", [True, False])
def test_pages_are_not_framed_or_cached_or_scripted(settings: Any, asked: bool) -> None:
    settings.STATIC_URL = "https://static.example.com/files/"
    page = browser_of().get(address(register()) if asked else CONNECTIONS)
    assert page["Content-Security-Policy"] == (
        "default-src 'self' https://static.example.com; script-src 'none'; object-src 'none'; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
    assert page["X-Frame-Options"] == "DENY"
    assert page["Referrer-Policy"] == "same-origin"
    assert {"no-store", "private"} <= set(re.split(", *", page["Cache-Control"]))
    tags = Page(page.content.decode())
    assert tags.all("script", "style") == []
    assert [attrs for _, attrs in tags.tags if "style" in attrs or "onclick" in attrs] == []
    sheets = [] if asked else ["connect.css"]
    place = "https://static.example.com/files/mcp_bridge/"
    assert [each["href"] for each in tags.all("link")] == [
        f"{place}{name}" for name in ["page.css", *sheets]
    ]


@pytest.mark.parametrize("template", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.name)
def test_every_word_is_translatable(template: Path) -> None:
    text = re.sub(
        r"(?s){% blocktranslate.*?{% endblocktranslate %}|{%.*?%}|{{.*?}}|<[^>]*>",
        "",
        template.read_text(),
    )
    assert re.findall(r"\w+", text) == []
