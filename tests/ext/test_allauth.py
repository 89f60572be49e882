"""The site of docs/access/allauth.md: django-allauth issues the tokens, in a separate process."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx2
import jwt
import pytest
from django.contrib.auth import get_user_model

from mcp_bridge import Context
from mcp_bridge.ext.jwt import JWTAuthentication
from mcp_bridge.ext.jwt import keys as jwks
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.ext.allauth_site import CALLBACK, TLS, Browser, Site, Tokens, official_client, pem

pytestmark = pytest.mark.alone

VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=")


@pytest.fixture(scope="module")
def folder_of_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("allauth"))
    yield site
    site.stop()


@pytest.fixture
def site(folder_of_site: Site) -> Site:
    """The site of the page; a test that changes its settings does not restore them."""
    folder_of_site.serve()
    return folder_of_site


def metadata(site: Site, name: str = "openid-configuration") -> dict[str, Any]:
    found: dict[str, Any] = httpx2.get(f"{site.url}/.well-known/{name}", verify=TLS).json()
    return found


def registered(site: Site, **body: Any) -> httpx2.Response:
    """Return the response to a client's registration."""
    sent = {
        "redirect_uris": [CALLBACK],
        "client_name": "Laptop",
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        **body,
    }
    return httpx2.post(metadata(site)["registration_endpoint"], json=sent, verify=TLS)


def authorize(site: Site, client: str, browser: Browser, **params: Any) -> dict[str, str]:
    """Return the query that the browser is redirected with."""
    asked = {
        "response_type": "code",
        "client_id": client,
        "redirect_uri": CALLBACK,
        "scope": "mcp",
        "state": "s",
        "code_challenge": CHALLENGE.decode(),
        "code_challenge_method": "S256",
        "resource": f"{site.url}/mcp",
        **params,
    }
    asked = {name: value for name, value in asked.items() if value is not None}
    return browser.query(f"{metadata(site)['authorization_endpoint']}?{urlencode(asked)}")


def exchange(site: Site, client: str, **body: Any) -> httpx2.Response:
    """Return the response of the token endpoint."""
    sent = {"client_id": client, "grant_type": "authorization_code", **body}
    return httpx2.post(metadata(site)["token_endpoint"], data=sent, verify=TLS)


def token(site: Site, **params: Any) -> dict[str, Any]:
    """Return what a new client receives for a code."""
    client = registered(site).json()["client_id"]
    code = authorize(site, client, Browser(), **params)["code"]
    found = exchange(site, client, code=code, code_verifier=VERIFIER, redirect_uri=CALLBACK)
    assert found.status_code == 200, found.text
    return {**found.json(), "client_id": client}


def call(site: Site, *secrets: str) -> httpx2.Response:
    """Return the response to a call with these in Authorization headers."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami"}}
    headers = [("Content-Type", "application/json"), ("MCP-Protocol-Version", "2025-11-25")]
    headers += [("Authorization", f"Bearer {secret}") for secret in secrets]
    return httpx2.post(f"{site.url}/mcp", content=json.dumps(message), headers=headers, verify=TLS)


def user_of(response: httpx2.Response) -> list[str]:
    found: list[str] = response.json()["result"]["structuredContent"]["result"]
    return found


def test_documented_site_passes_the_checks(site: Site) -> None:
    assert "no issues" in site.run("-m", "django", "check", "--fail-level", "WARNING")


@pytest.mark.parametrize(
    "secret",
    [
        {"token_endpoint_auth_method": "none"},
        {"token_endpoint_auth_method": "client_secret_basic"},
        {"token_endpoint_auth_method": "client_secret_post"},
        {},
    ],
)
def test_official_client_needs_only_the_url(site: Site, secret: dict[str, str]) -> None:
    browser, tokens = Browser(), Tokens()
    expected = {"result": ["ada", f"{site.url}/mcp", "mcp"]}
    assert official_client(f"{site.url}/mcp", browser, tokens, **secret) == expected
    assert len(set(tokens.given)) == 2
    assert f"You will be sent to {CALLBACK}." in browser.pages[-1]
    assert "Use the tools of this site" in browser.pages[-1]
    assert site.records()[0]["credential"] == "Laptop"


def test_metadata_at_both_addresses_is_complete(site: Site) -> None:
    found = metadata(site)
    assert metadata(site, "oauth-authorization-server") == found
    assert found["issuer"] == site.url
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["grant_types_supported"] == ["authorization_code", "refresh_token"]
    assert found["scopes_supported"] == ["openid", "email", "profile", "mcp"]
    assert "none" in found["token_endpoint_auth_methods_supported"]
    assert "client_id_metadata_document_supported" not in found
    # The issuer does not depend on the request.
    at_other = {"Host": "testserver"}
    url = f"{site.url}/.well-known/openid-configuration"
    assert httpx2.get(url, headers=at_other, verify=TLS).json()["issuer"] == site.url


@pytest.mark.parametrize(
    "body",
    [
        {"redirect_uris": ["http://evil.example/cb"]},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": ["cursor://evil/cb"]},
        {"redirect_uris": ["cursor://anysphere.cursor-mcp/oauth/callback"]},
        {"redirect_uris": [CALLBACK, "http://evil.example/cb"]},
        {"redirect_uris": ["https://good.example:99999/cb"]},
        {"redirect_uris": ["http://127.0.0.1:80:80/cb"]},
        {"redirect_uris": ["https://good.example%40evil.example/cb"]},
        {"redirect_uris": ["https://good.example@evil.example/cb"]},
        {"grant_types": ["client_credentials"]},
        {"grant_types": ["password"]},
        {"response_types": ["token"]},
    ],
)
def test_unneeded_registrations_are_refused(site: Site, body: dict[str, Any]) -> None:
    response = registered(site, **body)
    assert response.status_code == 400
    assert response.json()["error"] in ("invalid_client_metadata", "invalid_redirect_uri")


@pytest.mark.parametrize(
    "body",
    [
        {"redirect_uris": ["https://claude.ai/api/mcp/auth_callback"]},
        {"redirect_uris": ["https://chatgpt.com/connector_platform_oauth_redirect"]},
        {"redirect_uris": ["http://127.0.0.1:33418/", "https://vscode.dev/redirect"]},
        {"redirect_uris": ["http://localhost:45099/callback"]},
        {"scope": "admin"},
    ],
)
def test_registration_of_a_known_client_is_accepted(site: Site, body: dict[str, Any]) -> None:
    response = registered(site, **body)
    assert response.status_code == 201
    assert response.json()["scope"] == "openid email profile mcp"


def test_foreign_resource_is_an_invalid_target(
    site: Site,
) -> None:
    client = registered(site).json()["client_id"]
    for resource in ("https://elsewhere.example/mcp", site.url, f"{site.url}/mcp/tools", "mcp"):
        found = authorize(site, client, Browser(), resource=resource)
        assert found.get("error") == "invalid_target" or resource == "mcp"
        assert found.get("state") == "s" or resource == "mcp"
        assert "code" not in found
    code = authorize(site, client, Browser())["code"]
    sent = {"code": code, "code_verifier": VERIFIER, "redirect_uri": CALLBACK}
    response = exchange(site, client, **sent, resource="https://elsewhere.example/mcp")
    assert (response.status_code, response.json()["error"]) == (400, "invalid_target")


@pytest.mark.parametrize("scheme", ["HTTP", "Http"])
def test_resource_host_is_case_insensitive(site: Site, scheme: str) -> None:
    given = token(site, resource=f"{site.url}/mcp".replace("http", scheme))
    assert user_of(call(site, given["access_token"]))[0] == "ada"


def test_user_can_deny_authorization(site: Site) -> None:
    client = registered(site).json()["client_id"]
    found = authorize(site, client, Browser("cancel"))
    assert found == {"error": "access_denied", "state": "s"}


def test_token_for_another_resource_is_refused(site: Site) -> None:
    good = token(site)
    whole_site = token(site, resource=None)["access_token"]
    assert user_of(call(site, good["access_token"])) == ["ada", f"{site.url}/mcp", "mcp"]
    for wrong in (["nothing"], [whole_site], [good["refresh_token"]], [good["access_token"]] * 2):
        response = call(site, *wrong)
        assert response.status_code == 401
        challenge = response.headers["WWW-Authenticate"]
        assert challenge.startswith('Bearer realm="mcp", ')
        assert 'error="invalid_token"' in challenge
        # Those of a minute are one row.
        refused = {"outcome": "refused", "error_code": "unauthenticated", "credential": ""}
        assert refused in site.records()
    assert 'error="' not in call(site).headers["WWW-Authenticate"]


def test_revoked_token_is_refused_at_once(site: Site) -> None:
    good = token(site)
    assert call(site, good["access_token"]).status_code == 200
    sent = {"token": good["access_token"], "client_id": good["client_id"]}
    assert (
        httpx2.post(metadata(site)["revocation_endpoint"], data=sent, verify=TLS).status_code == 200
    )
    assert call(site, good["access_token"]).status_code == 401


def test_tokens_are_not_in_the_sites_log(site: Site) -> None:
    good = token(site)
    call(site, good["access_token"])
    for secret in (good["access_token"], good["refresh_token"]):
        assert secret not in site.log()


class ProviderAuthentication(JWTAuthentication):
    """A class of another site, to which the site of the page is an external issuer."""

    user_field = "pk"


@pytest.fixture
def provider(
    folder_of_site: Site, settings: Any, monkeypatch: pytest.MonkeyPatch, db: None
) -> Site:
    """The site as a provider of JWTs; its first user is one of the tests' site as well."""
    site = folder_of_site
    site.serve(IDP_OIDC_ACCESS_TOKEN_FORMAT="jwt")
    jwks.keys_of.cache_clear()
    monkeypatch.setattr(ProviderAuthentication, "issuer", site.url)
    path = f"{__name__}.ProviderAuthentication"
    settings.MCP_BRIDGE = {"AUTHENTICATION_CLASSES": [path], "RESOURCE": f"{site.url}/mcp"}
    serve(settings, whoami, read_only=True)
    get_user_model().objects.create_user("visitor", pk=1)
    return site


def whoami(context: Context) -> list[str]:
    """Say who calls."""
    return [context.user.get_username(), context.auth.name, *context.auth.scopes]


def test_provider_tokens_are_accepted_after_key_rotation(
    provider: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "MIN_INTERVAL", 0)
    old = token(provider)
    who = {"result": ["visitor", old["client_id"], "mcp"]}
    assert CheckedClient(token=old["access_token"]).call_tool("whoami")["structuredContent"] == who
    keys = [{"pem": pem(1), "issued_at": "2026-01-01T00:00:00Z"}]
    provider.serve(IDP_OIDC_ACCESS_TOKEN_FORMAT="jwt", IDP_OIDC_PRIVATE_KEYS=keys)
    new = token(provider)["access_token"]
    kids = [jwt.get_unverified_header(each)["kid"] for each in (old["access_token"], new)]
    assert kids[0] != kids[1]
    for each in (new, old["access_token"]):
        client = CheckedClient(token=each)
        assert client.call_tool("whoami")["structuredContent"]["result"][0] == "visitor"


@pytest.mark.django_db(transaction=True)
def test_official_client_logs_in_at_an_external_issuer(
    provider: Site, settings: Any, live_server: Any
) -> None:
    ours = {
        **settings.MCP_BRIDGE,
        "RESOURCE": f"{live_server.url}/mcp",
        "AUTHORIZATION_SERVERS": [provider.url],
        "SCOPES": {"mcp": "Use the tools of the other site"},
        "DEFAULT_SCOPES": ["mcp"],
    }
    settings.MCP_BRIDGE = ours
    theirs = {**ours, "AUTHENTICATION_CLASSES": ["mcp_bridge.ext.allauth.TokenAuthentication"]}
    provider.serve(IDP_OIDC_ACCESS_TOKEN_FORMAT="jwt", MCP_BRIDGE=theirs)
    tokens = Tokens()
    found = official_client(f"{live_server.url}/mcp", Browser(), tokens)
    assert found == {"result": ["visitor", tokens.client.client_id, "mcp"]}
    assert len(set(tokens.given)) == 2


def test_other_provider_tokens_are_refused(provider: Site) -> None:
    found = token(provider, scope="openid mcp")
    opaque, whole_site = found["refresh_token"], token(provider, resource=None)["access_token"]
    for wrong in (found["id_token"], opaque, whole_site):
        client = CheckedClient(token=wrong)
        with pytest.raises(MCPError):
            client.call_tool("whoami")
        assert client.response.status_code == 401
    assert CheckedClient(token=found["access_token"]).list_tools()


@pytest.mark.parametrize(
    ("adapter", "is_fetched"),
    [
        # The page warns of this; drop the warning once allauth checks addresses.
        ("allauth.idp.oidc.adapter.DefaultOIDCAdapter", True),
        ("mcp_bridge.ext.allauth.Adapter", False),
        ("oidc.Adapter", False),
    ],
)
def test_metadata_documents_are_fetched_from_listed_hosts_only(
    folder_of_site: Site, adapter: str, is_fetched: bool
) -> None:
    site = folder_of_site
    site.serve(IDP_OIDC_ADAPTER=adapter, IDP_OIDC_CIMD_ENABLED=True)
    with socket.create_server(("127.0.0.1", 0)) as inside:
        inside.settimeout(0.5)
        client = f"https://127.0.0.1:{inside.getsockname()[1]}/client.json"
        assert "code" not in authorize(site, client, Browser())
        if is_fetched:
            inside.accept()[0].close()
        else:
            with pytest.raises(TimeoutError):
                inside.accept()
    is_advertised = "client_id_metadata_document_supported" in metadata(site)
    assert is_advertised is (adapter == "oidc.Adapter")
    if is_advertised:
        cursor = "cursor://anysphere.cursor-mcp/oauth/callback"
        assert registered(site, redirect_uris=[cursor, CALLBACK]).status_code == 201
        assert registered(site, redirect_uris=["cursor://evil/cb"]).status_code == 400
