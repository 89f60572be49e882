"""The pages, the command and the documents show the same steps to connect a client."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from base64 import b64decode
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client, RequestFactory
from django.urls import include, path

from mcp_bridge.server.connecting import CLIENTS, TOKEN, Connection, Way, endpoint_url
from mcp_bridge.testing.serving import route
from mcp_bridge.tokens.models import Token
from tests.support.page import Page

DOCS = Path(__file__).parents[2] / "docs" / "clients"
URL = "https://example.com/mcp"
PAGE = "/mcp/tokens/"
LOGIN = {"has_login": True}
SERVER = {"type": "http", "url": URL}


@pytest.fixture(autouse=True)
def named(settings: Any) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "SERVER_INFO": {"name": "Newsroom"}}


def way_of(key: str, **options: Any) -> Way:
    (found,) = (each for each in Connection(URL, **options).clients if each.client.key == key)
    return found


def steps(key: str) -> list[str]:
    return [step.code for step in way_of(key, secret=TOKEN).token]


@pytest.mark.parametrize("key", [each.key for each in CLIENTS if each.key != "curl"])
def test_documents_match_the_printed_steps(key: str) -> None:
    page = (DOCS / f"{key}.md").read_text()
    for code in steps(key):
        assert code in page


@pytest.mark.parametrize("key", [each.key for each in CLIENTS if each.stdio])
def test_documents_match_the_commands_of_stdio(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/srv/newsroom/.venv/bin/python")
    monkeypatch.setattr(sys, "argv", ["/srv/newsroom/manage.py", "mcp_connect"])
    page = (DOCS.parent / "operate" / "stdio.md").read_text()
    for step in way_of(key, secret=TOKEN, user="ada").stdio:
        assert step.code in page


def test_configuration_files_are_valid() -> None:
    for key in ("claude-desktop", "cursor", "gemini-cli", "inspector"):
        assert json.loads(steps(key)[0])["mcpServers"].keys() == {"newsroom"}
    assert json.loads(steps("vs-code")[0])["servers"]["newsroom"]["url"] == URL
    assert tomllib.loads(steps("codex")[0])["mcp_servers"]["newsroom"]["url"] == URL
    assert "Authorization: Bearer TOKEN" in shlex.split(steps("claude-code")[0].splitlines()[0])


@pytest.mark.parametrize(
    ("name", "variable"),
    [("La Rédaction!", "LA_R_DACTION_TOKEN"), ("新聞", "SITE_TOKEN"), ("a\"'b", "A_B_TOKEN")],
)
def test_server_names_are_made_valid_for_clients(name: str, variable: str, settings: Any) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "SERVER_INFO": {"name": name}}
    (server,) = json.loads(steps("cursor")[0])["mcpServers"]
    assert server.replace("-", "_").upper() + "_TOKEN" == variable
    assert steps("codex")[1] == f"{variable}=TOKEN codex"


def test_oauth_client_steps_contain_no_token() -> None:
    found = Connection(URL, has_login=True).clients
    assert {each.client.key for each in found} >= {"claude-code", "cursor", "vs-code"}
    assert "oken" not in " ".join(step.code for each in found for step in each.login)
    assert not any(each.token for each in found)


def test_link_adds_the_server_to_cursor() -> None:
    link = urlsplit(way_of("cursor", has_login=True).install)
    assert (link.scheme, link.netloc) == ("cursor", "anysphere.cursor-deeplink")
    assert link.path == "/mcp/install"
    sent = parse_qs(link.query)
    assert sent["name"] == ["newsroom"]
    assert json.loads(b64decode(sent["config"][0])) == {"url": URL}


def test_link_adds_the_server_to_vs_code() -> None:
    logs_in, sends = (way_of("vs-code", **each).install for each in (LOGIN, {"secret": TOKEN}))
    scheme, _, config = logs_in.partition("vscode:mcp/install?")
    assert (scheme, json.loads(unquote(config))) == ("", {**SERVER, "name": "newsroom"})
    config = json.loads(unquote(sends.partition("?")[2]))
    assert config["headers"] == {"Authorization": "Bearer ${input:token}"}
    assert config["inputs"][0]["password"]


def test_address_comes_from_request_or_settings(settings: Any) -> None:
    request = RequestFactory().get("/", secure=True, headers={"host": "testserver"})
    assert endpoint_url(request) == "https://testserver/mcp"
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "RESOURCE": "https://mcp.example.com/mcp"}
    assert endpoint_url(request) == "https://mcp.example.com/mcp"


@pytest.mark.urls("tests.apps.test_connecting")
def test_address_is_empty_if_the_endpoint_is_renamed() -> None:
    assert endpoint_url(RequestFactory().get("/")) == ""


urlpatterns: list[Any] = []


def printed(*arguments: str) -> str:
    out = StringIO()
    call_command("mcp_connect", *arguments, stdout=out, no_color=True)
    return out.getvalue()


def test_command_prints_steps_of_one_or_all_clients() -> None:
    assert printed("codex", "--url", URL).startswith("Codex CLI\nIn ~/.codex/config.toml:\n")
    everything = printed("--url", URL)
    assert all(code in everything for each in CLIENTS for code in steps(each.key))
    assert "claude mcp login newsroom" in printed("claude-code", "--url", URL, "--login")


def test_command_reports_missing_setup() -> None:
    with pytest.raises(CommandError, match="pass --url, or set MCP_BRIDGE"):
        printed()
    with pytest.raises(CommandError, match="Cannot connect: emacs. Supported: claude-code, "):
        printed("emacs", "--url", URL)
    with pytest.raises(CommandError, match="Cannot connect with a login: codex"):
        printed("codex", "--url", URL, "--login")


@pytest.fixture
def browser(settings: Any, user: Any) -> Client:
    """A browser of a user without any permission in the admin."""
    route(settings, path("mcp/tokens/", include("mcp_bridge.tokens.urls")))
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.django_db
class TestOwnTokens:
    def test_user_issues_a_token_and_connects_a_client(self, browser: Client, user: Any) -> None:
        page = browser.post(PAGE, {"name": "Laptop", "days": "90"})
        (token,) = Token.objects.all()
        assert (token.user, token.name) == (user, "Laptop")
        assert token.expires_at is not None
        assert (token.expires_at - token.created_at).days in (89, 90)
        secret = page.context["secret"]
        assert Token.objects.find(secret) == token
        text = page.content.decode()
        assert f"Authorization: Bearer {secret}" in text.replace("&quot;", '"')
        assert "no-store" in page.headers["Cache-Control"]
        assert page.headers["X-Frame-Options"] == "DENY"
        again = browser.get(PAGE).content.decode()
        assert secret not in again
        assert "Bearer TOKEN" in again
        assert "messages" not in browser.cookies

    def test_token_expires_after_a_chosen_time(self, browser: Client) -> None:
        for days in ("", "0", "36500", "x"):
            assert browser.post(PAGE, {"name": "Laptop", "days": days}).status_code == 400
        assert browser.post(PAGE, {"name": "", "days": "7"}).status_code == 400
        assert browser.post(PAGE, {"name": "x" * 101, "days": "7"}).status_code == 400
        assert not Token.objects.exists()

    def test_number_of_tokens_per_user_is_bounded(self, browser: Client, user: Any) -> None:
        for _ in range(50):
            token, _secret = Token.objects.issue(user=user, name="Laptop")
        page = browser.post(PAGE, {"name": "Laptop", "days": "7"})
        assert page.status_code == 400
        assert "You have 50 valid tokens, the maximum: revoke one first." in str(page.content)
        browser.post(PAGE, {"revoke": token.pk})
        assert browser.post(PAGE, {"name": "Laptop", "days": "7"}).status_code == 200

    def test_user_can_revoke_only_own_tokens(self, browser: Client, user: Any) -> None:
        other = get_user_model().objects.create_user("bob")
        own, _ = Token.objects.issue(user=user, name="Laptop")
        others, _ = Token.objects.issue(user=other, name="Bob's desk")
        assert "Bob" not in browser.get(PAGE).content.decode()
        for key in (own.pk, others.pk, "x", "", "99999999999999999999"):
            page = browser.post(PAGE, {"revoke": key}, follow=True)
            assert page.redirect_chain == [(PAGE, 302)]
        own.refresh_from_db()
        others.refresh_from_db()
        assert (own.is_valid, others.is_valid) == (False, True)
        assert "You do not have a token yet" in browser.get(PAGE).content.decode()

    def test_actions_require_post_and_a_csrf_token(self, browser: Client, user: Any) -> None:
        token, _ = Token.objects.issue(user=user, name="Laptop")
        browser.get(PAGE, {"revoke": token.pk})
        browser.get(PAGE, {"name": "x", "days": "7"})
        browser.handler.enforce_csrf_checks = True
        assert browser.post(PAGE, {"revoke": token.pk}).status_code == 403
        assert browser.post(PAGE, {"name": "x", "days": "7"}).status_code == 403
        assert [each.is_valid for each in Token.objects.all()] == [True]

    def test_anonymous_user_is_sent_to_log_in(self, browser: Client) -> None:
        browser.logout()
        for response in (browser.get(PAGE), browser.post(PAGE, {"name": "x", "days": "7"})):
            assert response.status_code == 302
            assert response.headers["Location"].endswith(f"?next={PAGE}")
        assert not Token.objects.exists()

    def test_markup_in_a_name_is_escaped(self, browser: Client) -> None:
        browser.post(PAGE, {"name": "<script>alert(1)</script>", "days": "7"})
        page = browser.get(PAGE).content.decode()
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://example.com/mcp", "example-com"),
        ("https://News.Example.com:8443/mcp", "news-example-com"),
        ("http://127.0.0.1:8000/mcp", "site-127-0-0-1"),
        ("http://[::1]:8000/mcp", "site-1"),
        ("http://localhost/mcp", "localhost"),
        ("https://xn--bcher-kva.example/mcp", "xn-bcher-kva-example"),
    ],
)
def test_unnamed_site_is_called_by_its_host(url: str, name: str, settings: Any) -> None:
    settings.MCP_BRIDGE = {}
    everything = printed("--url", url)
    assert f"claude mcp add --transport http {name} {url} " in everything
    assert f"[mcp_servers.{name}]" in everything
    assert f"{name.upper().replace('-', '_')}_TOKEN=TOKEN codex" in everything
    assert "django-mcp-bridge" not in everything

    def test_form_precedes_the_tokens(self, browser: Client, user: Any) -> None:
        Token.objects.issue(user=user, name="Laptop")
        text = browser.get(PAGE).content.decode()
        assert text.index("Issue a token") < text.index("Laptop") < text.index("Connect a client")

    def test_user_limits_a_token(self, browser: Client, settings: Any) -> None:
        assert 'name="scope"' not in browser.get(PAGE).content.decode()
        settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "SCOPES": {"a": "Read", "b": "Write"}}
        assert 'value="a"' in browser.get(PAGE).content.decode()
        limits = {"scope": ["a"], "read_only": "on"}
        browser.post(PAGE, {"name": "Laptop", "days": "7", **limits})
        token = Token.objects.get()
        assert (token.scope, token.read_only) == ("a", True)
        text = browser.get(PAGE).content.decode()
        assert "read-only" in text
        assert "scopes: a" in text
        forged = {"name": "Laptop", "days": "7", "scope": ["other"]}
        assert browser.post(PAGE, forged).status_code == 400

    def test_token_is_not_limited_by_default(self, browser: Client) -> None:
        browser.post(PAGE, {"name": "Laptop", "days": "7"})
        token = Token.objects.get()
        assert (token.scope, token.tools, token.read_only) == (None, None, False)
        assert "not limited" in browser.get(PAGE).content.decode()

    def test_token_is_revoked_whatever_the_format_of_numbers(
        self, browser: Client, user: Any, settings: Any
    ) -> None:
        settings.USE_THOUSAND_SEPARATOR = True
        Token.objects.issue(user=user, name="Laptop")
        Token.objects.update(pk=12345)
        page = Page(browser.get(PAGE).content.decode())
        sent = {each["name"]: each.get("value", "") for each in page.all("input")}
        browser.post(PAGE, {"revoke": sent["revoke"]})
        assert not Token.objects.get().is_valid

    def test_revoking_is_confirmed_without_scripts(self, browser: Client, user: Any) -> None:
        Token.objects.issue(user=user, name="Laptop")
        page = Page(browser.get(PAGE).content.decode())
        (asking,) = (each for each in page.all("button") if each.get("aria-haspopup") == "dialog")
        (asked,) = (each for each in page.all("div") if "popover" in each)
        assert (asking["type"], asking["popovertarget"]) == ("button", asked["id"])
        assert "Clients that use it will be refused. This cannot be undone." in page.html

    def test_page_without_tokens_proposes_a_login(self, browser: Client, settings: Any) -> None:
        text = browser.get(PAGE).content.decode()
        assert "You do not have a token yet." in text
        assert "http://testserver/mcp<" in text
        assert "Most clients need none" not in text
        settings.MCP_BRIDGE = {
            "RESOURCE": URL,
            "AUTHORIZATION_SERVERS": ["https://example.com"],
        }
        text = browser.get(PAGE).content.decode()
        assert text.index("Most clients need none") < text.index("for a client that cannot log in")


def test_command_prints_stdio_without_an_address(user: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {}
    out = StringIO()
    call_command("mcp_connect", "cursor", "claude-code", user=user.username, stdout=out)
    assert '"mcp_stdio", "--user", "ada"]' in out.getvalue()
    assert "mcp_stdio --user ada\n" in out.getvalue()
    assert "Authorization" not in out.getvalue()
    call_command("mcp_connect", "cursor", "--user", "ada", "--settings", "a.b", stdout=out)
    assert '"--user", "ada", "--settings", "a.b"]' in out.getvalue()
    with pytest.raises(CommandError, match="Unknown user 'nobody'"):
        call_command("mcp_connect", user="nobody")


def test_command_prints_the_login_of_an_oauth_site(settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUTHORIZATION_SERVERS": ["https://auth.example.com"]}
    out = StringIO()
    call_command("mcp_connect", "claude-code", url=URL, stdout=out)
    assert "claude mcp login" in out.getvalue()
    assert "Authorization: Bearer TOKEN" in out.getvalue()
