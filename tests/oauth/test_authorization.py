"""Answers of the authorization and the token endpoint."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from tests.oauth.clients import RESOURCE, OAuthClient, answered
from tests.oauth.conftest import ISSUER, OAUTH2_PROVIDER
from tests.oauth.test_tokens import opens

FOREIGN = [
    "https://evil.example/mcp",
    "https://testserver",
    "https://testserver/",
    "https://testserver/mcp/",
    "https://testserver/mcp/other",
    "https://TESTSERVER/MCP",
    "https://ada@TESTSERVER/mcp",
    "https://TESTSERVER/mcp?",
    "http://testserver/mcp",
    "mcp",
    "<script>alert(1)</script>",
]


@pytest.fixture
def oauth(user: Any) -> OAuthClient:
    return OAuthClient(user)


@pytest.mark.requirement("as.iss", "auth.storage")
def test_user_can_authorize_a_client(oauth: OAuthClient, user: Any) -> None:
    answer = answered(oauth.decide(oauth.ask()))
    assert answer.keys() == {"code", "state", "iss"}
    assert (answer["iss"], answer["state"]) == (ISSUER, "state of the client")
    response = oauth.exchange(answer["code"])
    assert response["Cache-Control"] == "no-store"
    given = response.json()
    assert (given["scope"], given["token_type"], given["expires_in"]) == ("mcp", "Bearer", 3600)
    token = AccessToken.objects.get()
    assert (token.user, token.resource, token.scope) == (user, [RESOURCE], "mcp")
    # Neither secret is in the database.
    assert (token.token, RefreshToken.objects.get().token) == ("", "")


def test_consent_page_is_not_framed_or_cached(oauth: OAuthClient) -> None:
    page = oauth.ask()
    assert page["X-Frame-Options"] == "DENY"
    assert "no-store" in page["Cache-Control"]


def test_denial_names_the_issuer(oauth: OAuthClient) -> None:
    answer = answered(oauth.decide(oauth.ask(), allow=False))
    assert (answer["error"], answer["iss"]) == ("access_denied", ISSUER)
    assert answer["state"] == "state of the client"
    assert not Grant.objects.exists()


@pytest.mark.requirement("as.iss", "auth.statuses")
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"response_type": "token"}, "unauthorized_client"),
        ({"code_challenge": None}, "invalid_request"),
        ({"resource": "https://evil.example/mcp"}, "invalid_target"),
    ],
)
def test_every_error_redirect_names_the_issuer(
    oauth: OAuthClient, changed: dict[str, str], error: str
) -> None:
    answer = answered(oauth.ask(**changed))
    assert (answer["error"], answer["iss"]) == (error, ISSUER)
    assert answer["state"] == "state of the client"


def test_prompt_none_without_login_is_login_required() -> None:
    answer = answered(OAuthClient().ask(prompt="none"))
    assert (answer["error"], answer["iss"]) == ("login_required", ISSUER)


@pytest.mark.parametrize(
    ("prompt", "error"),
    [
        ("none", "consent_required"),
        (" none ", "consent_required"),
        ("none login", "invalid_request"),
        ("consent none", "invalid_request"),
        ("none create", "invalid_request"),
        ("none select_account", "invalid_request"),
    ],
)
@pytest.mark.parametrize("is_connected", [False, True])
def test_prompt_none_shows_no_page(
    oauth: OAuthClient, prompt: str, error: str, is_connected: bool
) -> None:
    if is_connected:
        oauth.log_in()
    answer = answered(oauth.ask(prompt=prompt))
    assert (answer["error"], answer["iss"]) == (error, ISSUER)
    assert answer["state"] == "state of the client"


def test_prompt_none_succeeds_with_skip_authorization(oauth: OAuthClient) -> None:
    Application.objects.update(skip_authorization=True)
    assert "code" in answered(oauth.ask(prompt="none"))


def test_prompt_none_does_not_redirect_to_foreign_addresses(oauth: OAuthClient) -> None:
    page = oauth.ask(prompt="none", redirect_uri="https://evil.example/cb")
    assert (page.status_code, "Location" in page) == (400, False)


def test_issuer_in_the_redirect_uri_is_replaced(user: Any) -> None:
    uri = "https://client.example/cb?iss=https%3A%2F%2Fevil.example&tab=1"
    client = OAuthClient(user, redirect_uris=[uri])
    page = client.ask(redirect_uri=uri)
    for allow in (True, False):
        answer = answered(client.decide(page, allow=allow))
        assert (answer["iss"], answer["tab"]) == (ISSUER, "1")


@pytest.mark.parametrize("resource", FOREIGN)
def test_foreign_resource_is_refused_before_login(resource: str) -> None:
    answer = answered(OAuthClient().ask(resource=resource))
    assert (answer["error"], answer["iss"]) == ("invalid_target", ISSUER)


def test_foreign_resource_is_refused_beside_a_valid_one(oauth: OAuthClient) -> None:
    answer = answered(oauth.ask(resource=[RESOURCE, "https://evil.example/mcp"]))
    assert answer["error"] == "invalid_target"


@pytest.mark.requirement("as.redirect-exact", "as.redirect-trusted", "auth.statuses")
@pytest.mark.parametrize(
    "changed", [{"client_id": "nobody"}, {"redirect_uri": "https://evil.example/cb"}]
)
def test_unregistered_redirect_uri_is_not_followed(
    oauth: OAuthClient, changed: dict[str, str]
) -> None:
    for resource in (RESOURCE, "https://evil.example/mcp"):
        page = oauth.ask(resource=resource, **changed)
        assert page.status_code == 400
        assert "Location" not in page
        assert "<form" not in page.content.decode()


@pytest.mark.parametrize("resource", FOREIGN)
def test_foreign_resource_is_refused_for_a_code(oauth: OAuthClient, resource: str) -> None:
    code = answered(oauth.decide(oauth.ask()))["code"]
    refused = oauth.exchange(code, resource=resource)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_target")
    assert refused["Cache-Control"] == "no-store"
    assert "<" not in refused.content.decode()
    assert not AccessToken.objects.exists()


def test_foreign_resource_in_the_form_yields_no_token(oauth: OAuthClient) -> None:
    page = oauth.ask()
    page.content = page.content.replace(RESOURCE.encode(), b"https://evil.example/mcp")
    code = answered(oauth.decide(page))["code"]
    refused = oauth.exchange(code, resource=None)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_target")


def test_foreign_resource_is_refused_for_a_refresh_token(oauth: OAuthClient) -> None:
    token = oauth.log_in()["refresh_token"]
    body = {"grant_type": "refresh_token", "refresh_token": token, "client_id": oauth.client_id}
    body["resource"] = "https://evil.example/mcp"
    refused = oauth.http.post("/oauth/token/", body, secure=True)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_target")


def test_token_without_a_resource_is_for_the_endpoint(oauth: OAuthClient) -> None:
    given = oauth.log_in(resource=None)
    assert AccessToken.objects.get().resource == [RESOURCE]
    assert oauth.refresh(given["refresh_token"]).status_code == 200
    assert {*map(tuple, AccessToken.objects.values_list("resource", flat=True))} == {(RESOURCE,)}


@pytest.mark.parametrize(
    "given",
    [
        [" HTTPS://TESTSERVER/mcp"],
        ["https://TESTSERVER/mcp", ""],
        ["https://testserver/MCP"],
    ],
)
def test_resource_differing_beyond_case_of_host_is_foreign(
    oauth: OAuthClient, given: list[str]
) -> None:
    assert answered(oauth.ask(resource=given))["error"] == "invalid_target"


CAPITALS = [
    "https://TESTSERVER/mcp",
    "HTTPS://testserver/mcp",
    "Https://TestServer/mcp",
]


@pytest.mark.parametrize("asked", [*CAPITALS, RESOURCE])
@pytest.mark.parametrize("exchanged", [CAPITALS[0], RESOURCE, None])
def test_resource_host_is_case_insensitive(
    oauth: OAuthClient, asked: str, exchanged: str | None
) -> None:
    code = answered(oauth.decide(oauth.ask(resource=asked)))["code"]
    given = oauth.exchange(code, resource=exchanged).json()
    assert opens(given["access_token"])
    again = oauth.refresh(given["refresh_token"], resource=exchanged).json()
    assert opens(again["access_token"])
    assert {*map(tuple, AccessToken.objects.values_list("resource", flat=True))} == {(RESOURCE,)}


def test_resource_in_the_settings_is_case_insensitive(user: Any, settings: Any) -> None:
    resource = "https://TestServer/mcp"
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "RESOURCE": resource}
    for asked in (RESOURCE, resource, resource.upper().replace("MCP", "mcp")):
        assert opens(OAuthClient(user).log_in(resource=asked)["access_token"])


SCOPES = [
    (None, "mcp"),
    ("", "mcp"),
    (" ", "mcp"),
    ("mcp offline_access", "mcp"),
    ("openid email profile", "mcp"),
    ("everything", "mcp"),
    (" mcp", "mcp"),
    ("mcp  mcp:write ", "mcp mcp:write"),
    ("mcp:write mcp mcp:write", "mcp:write mcp"),
    ("offline_access mcp:write", "mcp:write"),
    ("MCP mcp:writer", "mcp"),
]


@pytest.mark.parametrize(("asked", "granted"), SCOPES)
def test_only_existing_scopes_are_granted(
    oauth: OAuthClient, asked: str | None, granted: str
) -> None:
    given = oauth.log_in(scope=asked)
    assert given["scope"] == granted
    assert oauth.refresh(given["refresh_token"]).json()["scope"] == granted
    assert {*AccessToken.objects.values_list("scope", flat=True)} == {granted}


@pytest.mark.parametrize(("asked", "granted"), SCOPES)
def test_refresh_grants_only_existing_scopes(
    oauth: OAuthClient, asked: str | None, granted: str
) -> None:
    given = oauth.log_in(scope="mcp mcp:write")
    answer = oauth.refresh(given["refresh_token"], scope=asked).json()
    named_none = not {*(asked or "").split()} & {"mcp", "mcp:write"}
    expected = "mcp mcp:write" if named_none else granted
    assert {*answer["scope"].split()} == {*expected.split()}


@pytest.mark.parametrize("asked", ["mcp:write", "mcp mcp:write", "mcp:write offline_access"])
def test_refresh_cannot_add_scopes(oauth: OAuthClient, asked: str) -> None:
    given = oauth.log_in(scope="mcp")
    refused = oauth.refresh(given["refresh_token"], scope=asked)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_scope")


def test_unknown_scopes_in_the_form_are_not_granted(oauth: OAuthClient) -> None:
    page = oauth.ask()
    page.content = page.content.replace(b'name="scope" value="mcp"', b'name="scope" value="all"')
    code = answered(oauth.decide(page))["code"]
    assert oauth.exchange(code).json()["scope"] == "mcp"


@pytest.mark.requirement("as.pkce")
def test_pkce_verifier_is_required(oauth: OAuthClient) -> None:
    code = answered(oauth.decide(oauth.ask()))["code"]
    for verifier in (None, "a" * 64):
        refused = oauth.exchange(code, code_verifier=verifier)
        assert (refused.status_code, "access_token" in refused.json()) == (400, False)


@pytest.mark.requirement("as.pkce")
@pytest.mark.parametrize(
    "challenge",
    [
        {"code_challenge": None, "code_challenge_method": None},
        {"code_challenge": None},
        {"code_challenge": ""},
        {"code_challenge": "", "code_challenge_method": None},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
        {"code_challenge_method": ""},
        {"code_challenge_method": "s256"},
        {"code_challenge_method": "none"},
    ],
)
def test_non_s256_challenge_is_refused(
    oauth: OAuthClient, challenge: dict[str, str | None]
) -> None:
    answer = answered(oauth.ask(**challenge))
    assert (answer["error"], answer["iss"]) == ("invalid_request", ISSUER)
    assert not Grant.objects.exists()


def test_site_can_allow_plain_challenges(user: Any, settings: Any) -> None:
    settings.OAUTH2_PROVIDER = {**OAUTH2_PROVIDER, "COMPLIANT_BCP_RFC9700_PKCE_METHOD": False}
    oauth = OAuthClient(user)
    with pytest.warns(DeprecationWarning, match="PKCE"):
        given = oauth.log_in(code_challenge=oauth.verifier, code_challenge_method="plain")
    assert opens(given["access_token"])


def test_code_can_be_used_once(oauth: OAuthClient) -> None:
    code = answered(oauth.decide(oauth.ask()))["code"]
    assert oauth.exchange(code).status_code == 200
    assert oauth.exchange(code).json()["error"] == "invalid_grant"


@pytest.mark.parametrize("grant", ["password", "client_credentials", "implicit"])
def test_registered_client_cannot_use_other_grants(
    oauth: OAuthClient, user: Any, grant: str
) -> None:
    user.set_password("correct horse")
    user.save()
    body = {"grant_type": grant, "username": "ada", "password": "correct horse", "scope": "mcp"}
    body["client_id"] = oauth.client_id
    refused = oauth.http.post("/oauth/token/", body, secure=True)
    assert refused.status_code in (400, 401)
    assert not AccessToken.objects.exists()


LOOPBACKS = ["http://localhost/callback", "http://127.0.0.1/callback", "http://[::1]/callback"]


@pytest.mark.parametrize("registered", LOOPBACKS)
@pytest.mark.parametrize("port", [":1024", ":45099", ":65535", ""])
def test_loopback_without_a_port_matches_every_port(user: Any, registered: str, port: str) -> None:
    uri = registered.replace("/callback", f"{port}/callback")
    client = OAuthClient(user, redirect_uris=[registered])
    page = client.ask(redirect_uri=uri)
    assert page.status_code == 200
    response = client.decide(page)
    assert response["Location"].startswith(f"{uri}?")
    code = answered(response)["code"]
    assert client.exchange(code, redirect_uri=uri).status_code == 200


def test_loopback_with_a_port_matches_every_port(oauth: OAuthClient) -> None:
    assert oauth.ask(redirect_uri="http://127.0.0.1:50000/").status_code == 200


@pytest.mark.requirement("as.redirect-exact")
@pytest.mark.parametrize("registered", LOOPBACKS)
@pytest.mark.parametrize(
    "other",
    [
        "http://HOST:45099/other",
        "http://HOST:45099/callback/",
        "http://HOST:45099/callback/more",
        "http://HOST:45099/callback?more=1",
        "http://HOST:45099/callback#part",
        "https://HOST:45099/callback",
        "http://HOST.evil.example:45099/callback",
        "http://HOST@evil.example/callback",
        "http://evil.example:45099/callback",
        "http://127.0.0.2:45099/callback",
    ],
)
def test_loopback_matches_only_its_path_and_host(user: Any, registered: str, other: str) -> None:
    host = registered.split("/")[2]
    client = OAuthClient(user, redirect_uris=[registered])
    page = client.ask(redirect_uri=other.replace("HOST", host))
    assert (page.status_code, "Location" in page) == (400, False)


def test_loopback_ip_does_not_match_localhost(user: Any) -> None:
    client = OAuthClient(user, redirect_uris=["http://localhost/callback"])
    assert client.ask(redirect_uri="http://127.0.0.1:45099/callback").status_code == 400


def test_client_cannot_skip_the_consent_page(oauth: OAuthClient) -> None:
    oauth.log_in()
    page = oauth.ask(approval_prompt="auto")
    assert page.status_code == 200
    assert "<form" in page.content.decode()


def test_anonymous_user_is_sent_to_log_in() -> None:
    response = OAuthClient().ask()
    assert response.status_code == 302
    assert response["Location"].startswith("/login/?next=/oauth/authorize/")


def test_cross_site_consent_form_is_refused(oauth: OAuthClient) -> None:
    fields = {**oauth.authorization(), "allow": "true"}
    refused = oauth.browser.post("/oauth/authorize/", fields, secure=True)
    assert refused.status_code == 403
    assert not Grant.objects.exists()


def test_manual_client_without_a_resource_is_unbound(user: Any) -> None:
    client = OAuthClient(user)
    Application.objects.update(registration_source="manual")
    code = answered(client.decide(client.ask(resource=None)))["code"]
    assert client.exchange(code, resource=None).status_code == 200
    assert AccessToken.objects.get().resource == []


def test_revoking_a_refresh_token_revokes_its_access_token(oauth: OAuthClient) -> None:
    given = oauth.log_in()
    body = {"token": given["refresh_token"], "client_id": oauth.client_id}
    assert oauth.http.post("/oauth/revoke/", body, secure=True).status_code == 200
    assert not AccessToken.objects.exists()
    assert oauth.refresh(given["refresh_token"]).status_code == 400


def test_any_origin_can_register_and_exchange_codes(oauth: OAuthClient) -> None:
    page = Client(headers={"Origin": "http://localhost:6274"})
    for address in ("/oauth/token/", "/oauth/register/", "/oauth/revoke/", METADATA):
        preflight = page.options(
            address,
            headers={
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "content-type",
            },
            secure=True,
        )
        assert (preflight.status_code, preflight.content) == (204, b"")
        for response in (preflight, page.post(address, {}, secure=True)):
            assert response["Access-Control-Allow-Origin"] == "*"
            assert "Access-Control-Allow-Credentials" not in response
        assert "content-type" in preflight["Access-Control-Allow-Headers"].lower()
    consent = oauth.browser.get(
        "/oauth/authorize/",
        oauth.authorization(),
        headers={"Origin": "http://localhost:6274"},
        secure=True,
    )
    assert "Access-Control-Allow-Origin" not in consent


METADATA = "/.well-known/oauth-authorization-server"


@pytest.mark.requirement("as.metadata", "as.iss-announced")
@pytest.mark.parametrize("address", [METADATA, f"{METADATA}/mcp"])
@pytest.mark.parametrize("host", ["testserver", "localhost"])
def test_metadata_follow_the_settings(address: str, host: str) -> None:
    answer = Client(headers={"Host": host}).get(address, secure=host == "testserver")
    assert answer["Access-Control-Allow-Origin"] == "*"
    assert answer.json() == {
        "issuer": ISSUER,
        "authorization_endpoint": f"{ISSUER}/oauth/authorize/",
        "token_endpoint": f"{ISSUER}/oauth/token/",
        "revocation_endpoint": f"{ISSUER}/oauth/revoke/",
        "registration_endpoint": f"{ISSUER}/oauth/register/",
        "scopes_supported": ["mcp", "mcp:write"],
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": METHODS,
        "revocation_endpoint_auth_methods_supported": METHODS,
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }


METHODS = ["none", "client_secret_post", "client_secret_basic"]


@pytest.mark.parametrize("path", ["other", "mcp/", "mcp/other", "MCP", "/mcp"])
def test_other_paths_have_no_metadata(path: str) -> None:
    assert Client().get(f"{METADATA}/{path}").status_code == 404
