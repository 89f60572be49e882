"""Admission: host, origin and credential, before anything of the message is looked at."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from rest_framework.test import APIClient

from mcp_bridge.testing import MCPClient
from mcp_bridge.tokens.models import Token
from tests.support import wire
from tests.support.revisions import ERAS
from tests.support.site import CALLS
from tests.support.wire import answered, caller, good, headers, refused

quiet = wire.quiet

CLOSED = {
    "rpc": {
        "BACKEND": "mcp_bridge.sources.modernrpc.ModernRPCSource",
        "OPTIONS": {"servers": ["tests.support.site_async.closed"]},
    }
}
SESSIONS = {"AUTHENTICATION_CLASSES": ["rest_framework.authentication.SessionAuthentication"]}
LOGIN = "django.contrib.auth.middleware.LoginRequiredMiddleware"


def send(client: MCPClient, **more: str | None) -> Any:
    return client.send(good(client).encode(), headers(client, **more))


# Host and origin.


@pytest.mark.requirement("http.origin-checked", "http.origin-403")
@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://evil.example", "https://testserver", "http://testserver:8000", "file://"]
    + ["http://testserver.evil.example", "http://eviltestserver", "http://testserver@evil.example"]
    + ["http://evil.example@testserver", "http://testserver/", "http://testserver, http://b", "*"]
    + [
        "http://testserver,http://testserver",
        "//testserver",
        "testserver",
        "http://[::1",
        "x" * 9999,
    ]
    + [
        "javascript:alert(1)",
        "http://testserver\x00",
        "http://t\xe9stserver",
        "chrome-extension://a",
    ],
    ids=lambda origin: origin[:40],
)
def test_origin_that_is_not_allowed_is_forbidden(
    sender: MCPClient, origin: str, quiet: None
) -> None:
    refused(send(sender, Origin=origin), 403, 403)


@pytest.mark.parametrize("origin", [None, "http://testserver", "https://app.example:8443"])
def test_own_and_allowed_origins_may_call(
    sender: MCPClient, origin: str | None, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"ALLOWED_ORIGINS": ["https://app.example:8443"]}
    response = send(sender, Origin=origin)
    assert answered(response)["isError"] is False
    assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize(
    "origin", ["https://app.example", "http://app.example:8443", "app.example"]
)
def test_allowed_origin_is_scheme_host_and_port(origin: str, settings: Any, quiet: None) -> None:
    settings.MCP_BRIDGE = {"ALLOWED_ORIGINS": ["https://app.example:8443"]}
    refused(send(caller(), Origin=origin), 403, 403)


def test_origin_of_a_site_under_tls_is_https(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert answered(send(caller(), Origin="https://testserver"))
    refused(send(caller(), Origin="http://testserver"), 403, 403)


def test_foreign_host_is_refused_by_django(sender: MCPClient) -> None:
    CALLS.clear()
    foreign = {"SERVER_NAME": "evil.example", "HTTP_ORIGIN": "http://evil.example"}
    response = sender.http.post("/mcp", good(sender), content_type="application/json", **foreign)
    assert (response.status_code, CALLS) == (400, [])


@pytest.mark.parametrize("debug", [True, False])
def test_foreign_host_is_refused_in_json_without_middleware(
    debug: bool, settings: Any, quiet: None
) -> None:
    settings.MIDDLEWARE, settings.DEBUG = [], debug
    for host in ("evil.example", "testserver.evil.example", "a b", "testserver:x"):
        refused(send(caller(host=host)), 400, -32600)


def test_forwarded_host_counts_only_if_enabled(settings: Any) -> None:
    sent = {"X_Forwarded_Host": "proxy.example", "Origin": "http://proxy.example"}
    refused(send(caller(), **sent), 403, 403)
    settings.USE_X_FORWARDED_HOST, settings.ALLOWED_HOSTS = True, ["proxy.example"]
    assert answered(send(caller(), **sent))


def test_host_is_refused_after_removal_from_allowed_hosts(settings: Any) -> None:
    settings.MIDDLEWARE = []
    sent = {"Host": "one.example"}
    for allowed, debug, is_served in (
        (["one.example"], False, True),
        (["two.example"], False, False),
        (("one.example",), False, True),
        ([".example"], False, True),
        ([], False, False),
        (["localhost"], True, False),
        (["*"], False, True),
    ):
        settings.ALLOWED_HOSTS, settings.DEBUG = allowed, debug
        for _ in range(2):
            response = send(caller(), **sent)
            assert answered(response) if is_served else refused(response, 400, -32600)
    settings.ALLOWED_HOSTS.clear()
    refused(send(caller(), **sent), 400, -32600)


class ElsewhereMiddleware:
    """A middleware that claims another host for every request, as those for some proxies do."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        request.get_host = lambda: "elsewhere.example"
        return self.get_response(request)


@pytest.mark.off_lane
def test_origin_is_compared_with_the_middlewares_host(settings: Any) -> None:
    origin = {"Origin": "http://elsewhere.example"}
    refused(send(caller(), **origin), 403, 403)
    settings.MIDDLEWARE = [f"{__name__}.ElsewhereMiddleware"]
    assert answered(send(caller(), **origin))


# Credentials.


@pytest.fixture
def closed(settings: Any) -> None:
    """Serve a site with nothing for anonymous callers."""
    settings.MCP_BRIDGE = {"SOURCES": CLOSED}


@pytest.mark.usefixtures("closed", "quiet")
@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp?access_token=x", "/mcp?token=x"])
def test_caller_without_a_credential_is_challenged(revision: str, path: str) -> None:
    response = send(MCPClient(revision=revision, path=path))
    refused(response, 401, 401)
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="mcp"'
    assert "Location" not in response.headers


HEADERS = ["Bearer", "Bearer ", "Bearer AAAA", "bearer AAAA", "Token AAAA", "Basic YTpi", "AAAA"]
HEADERS += ["Bearer A B", "Bearer A,Bearer B", "Bearer \xe9", "Bearer " + "t" * 7000, "Digest x=y"]
HEADERS += ['Bearer x", error="none", realm="y', "Bearer A;B", "Bearer\tA", "Bearer =", "Negotiate"]


@pytest.mark.django_db
@pytest.mark.parametrize("value", HEADERS, ids=lambda value: value[:20])
@pytest.mark.parametrize("public", [True, False])
def test_invalid_credential_is_refused_even_on_public_sites(
    value: str, public: bool, settings: Any, quiet: None
) -> None:
    settings.MCP_BRIDGE = {} if public else {"SOURCES": CLOSED}
    response = send(MCPClient(), Authorization=value)
    refused(response, 401, 401)
    challenge = response.headers["WWW-Authenticate"]
    assert challenge == 'Bearer realm="mcp", error="invalid_token"'


@pytest.mark.django_db
def test_valid_credential_is_admitted(user: Any, closed: None) -> None:
    _, secret = Token.objects.issue(user=user, name="t")
    for revision in ERAS:
        client = MCPClient(token=secret, revision=revision)
        assert client.call_tool("secret")["content"][0]["text"] == "secret"


def test_anonymous_caller_sees_only_public_tools(quiet: None) -> None:
    client = MCPClient()
    assert [tool["name"] for tool in client.list_tools()] == ["ping_public"]
    error = refused(send(client), 200, -32602, id=1)
    assert error["message"] == "Unknown tool: add"


@pytest.mark.requirement("auth.validated")
@pytest.mark.usefixtures("closed", "quiet")
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"jsonrpc":"2.0","method":"x"}', b"x" * 2**21]
)
@pytest.mark.parametrize("media", ["application/json", "text/plain", ""])
def test_body_is_not_judged_before_the_credential(body: bytes, media: str) -> None:
    refused(MCPClient().send(body, {"Content-Type": media}), 401, 401)


@pytest.mark.usefixtures("closed", "quiet")
@pytest.mark.parametrize("media", ["multipart/form-data", "application/x-www-form-urlencoded"])
def test_form_is_refused_before_its_credential_is_read(media: str) -> None:
    refused(MCPClient().send(b"access_token=x", {"Content-Type": media}), 415, -32600)


@pytest.mark.usefixtures("closed", "quiet")
def test_origin_comes_before_the_credential() -> None:
    refused(send(MCPClient(), Origin="http://evil.example"), 403, 403)


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/tools/list"])
def test_login_required_middleware_does_not_redirect(path: str, settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, LOGIN]
    if path.endswith("list"):
        assert MCPClient().http.get(path).status_code == 200
    else:
        assert MCPClient(path=path).call_tool("ping_public")["isError"] is False
        assert MCPClient().http.get(path).status_code == 405
    settings.MCP_BRIDGE = {"SOURCES": CLOSED}
    assert MCPClient().http.generic("GET", "/mcp/tools/list").status_code == 401
    refused(send(MCPClient()), 401, 401)


# Session cookies.


@pytest.fixture
def browser(user: Any) -> MCPClient:
    """
    Return a browser that is logged in, and thus sends its session's cookie with every request.
    """
    client = MCPClient()
    client.http = APIClient(enforce_csrf_checks=True)
    client.http.force_login(user)
    return client


@pytest.mark.requirement("security.no-session-auth")
def test_session_is_a_credential_only_if_enabled(browser: MCPClient, quiet: None) -> None:
    refused(send(browser), 200, -32602, id=1)


def test_session_needs_a_csrf_token(browser: MCPClient, settings: Any, quiet: None) -> None:
    settings.MCP_BRIDGE = SESSIONS
    refused(send(browser), 403, 403)
    refused(send(browser, X_CSRFToken="x" * 32), 403, 403)


def test_session_with_a_csrf_token_is_a_credential(browser: MCPClient, settings: Any) -> None:
    settings.MCP_BRIDGE = SESSIONS
    token = "a" * 32
    browser.http.cookies["csrftoken"] = token
    response = send(browser, X_CSRFToken=token, Origin="http://testserver")
    assert answered(response)["isError"] is False


FORMS = {
    "text": ("text/plain", b"{}"),
    "form": ("application/x-www-form-urlencoded", b"a=1"),
    "large form": ("application/x-www-form-urlencoded", b"a=" + b"x" * 3_000_000),
    "many fields": ("application/x-www-form-urlencoded", b"&".join([b"a=1"] * 2000)),
    "odd charset": ("application/x-www-form-urlencoded; charset=nope", b"a=1"),
    "wide charset": ("application/x-www-form-urlencoded; charset=utf-16", b"a=1"),
    "parts": ("multipart/form-data; boundary=x", b"--x\r\n\r\n1\r\n--x--"),
    "no parts": ("multipart/form-data; boundary=x", b"{}"),
    "no boundary": ("multipart/form-data", b"{}"),
    "long boundary": ("multipart/form-data; boundary=" + "x" * 300, b"{}"),
}


@pytest.mark.parametrize("form", FORMS)
def test_form_of_another_site_is_refused(
    form: str, browser: MCPClient, settings: Any, quiet: None
) -> None:
    settings.MCP_BRIDGE = SESSIONS
    media, body = FORMS[form]
    browser.http.cookies["csrftoken"] = "a" * 32
    response = browser.send(body, {"Content-Type": media})
    assert response.status_code in (400, 403, 413, 415)
    refused(response, response.status_code, 403 if response.status_code == 403 else -32600)


@pytest.mark.parametrize("active", [True, False])
def test_inactive_user_is_refused(active: bool, browser: MCPClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {**SESSIONS, "SOURCES": CLOSED}
    get_user_model().objects.update(is_active=active)
    browser.http.cookies["csrftoken"] = "a" * 32
    response = send(browser, X_CSRFToken="a" * 32)
    assert response.status_code == (200 if active else 401)
