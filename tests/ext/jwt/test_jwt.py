"""Tokens of an external issuer, sent to the endpoint; its keys are fetched over HTTP."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured

from mcp_bridge.ext.jwt import JWTAuthentication
from mcp_bridge.ext.jwt import keys as jwks
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.ext.jwt.site import (
    CLASS,
    OTHER,
    RESOURCE,
    TOKENS,
    IssuerAuthentication,
    OtherAuthentication,
    called,
    refused,
    status,
    whoami,
)
from tests.support.issuer import KEYS, Issuer, part, private_key, public_jwk
from tests.test_docs_code import run


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_valid_token_authenticates_its_user(
    issuer: Issuer, asynchronous: bool, settings: Any
) -> None:
    serve(settings, whoami, read_only=True, asynchronous=asynchronous)
    found = called(issuer.token())
    assert found["user"] == "ada"
    assert (found["audience"], found["scopes"]) == ([RESOURCE], ["mcp", "read"])


def test_token_and_claims_are_not_recorded(issuer: Issuer) -> None:
    found = called(token := issuer.token(email="ada@example.com"))
    assert "ada@" not in found["credential"]
    assert token.split(".")[2] not in found["credential"]
    assert ToolCallRecord.objects.get().credential == "laptop"


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "PS256", "ES256", "ES384", "EdDSA"])
@pytest.mark.parametrize("kind", ["at+jwt", "application/at+JWT", "JWT", None])
def test_all_asymmetric_algorithms_and_token_types_are_accepted(
    issuer: Issuer, algorithm: str, kind: str | None
) -> None:
    issuer.jwks = [public_jwk(private_key(algorithm), algorithm, kid="a")]
    assert called(issuer.token(None, algorithm, {"typ": kind}))["user"] == "ada"


BAD: dict[str, Any] = {
    "alg none": lambda it: it.unsigned({"alg": "none"}),
    "alg None": lambda it: it.unsigned({"alg": None}),
    "alg left out": lambda it: it.unsigned({}),
    "alg a list": lambda it: it.unsigned({"alg": ["RS256"]}),
    "HS256 with the public key": lambda it: it.unsigned({"alg": "HS256"}, pem()),
    "HS256 with the JWK": lambda it: it.unsigned({"alg": "HS256"}, json.dumps(it.jwks[0]).encode()),
    "HS256 with nothing": lambda it: it.unsigned({"alg": "HS256"}, b""),
    "RS256 without signature": lambda it: it.unsigned({"alg": "RS256"}),
    "ES256 with the kid of an RSA key": lambda it: it.token(None, "ES256"),
    "another key with the same kid": lambda it: it.token(private_key("RS256", 1)),
    "a changed claim": lambda it: changed(it.token()),
    "unknown kid": lambda it: it.token(header={"kid": "b"}),
    "no kid": lambda it: it.token(header={"kid": None}),
    "its own key in jwk": lambda it: it.token(private_key("RS256", 1), header={"jwk": own_jwk()}),
    "its own keys at jku": lambda it: it.token(
        private_key("RS256", 1), header={"kid": "own", "jku": f"{it.url}/own-keys"}
    ),
    "x5u": lambda it: it.token(private_key("RS256", 1), header={"x5u": f"{it.url}/own-keys"}),
    "crit": lambda it: it.token(header={"crit": ["exp"], "exp": 1}),
    "crit empty": lambda it: it.token(header={"crit": []}),
    "typ of a log-out": lambda it: it.token(header={"typ": "logout+jwt"}),
    "assertion of a company": lambda it: it.token(header={"typ": "oauth-id-jag+jwt"}),
    "typ dpop+jwt": lambda it: it.token(header={"typ": "dpop+jwt"}),
    "expired": lambda it: it.token(exp=int(time.time()) - 61),
    "no exp": lambda it: it.token(exp=None),
    "exp no number": lambda it: it.token(exp="soon"),
    "not yet valid": lambda it: it.token(nbf=int(time.time()) + 70),
    "issued in the future": lambda it: it.token(iat=int(time.time()) + 70),
    "foreign audience": lambda it: it.token(aud="https://elsewhere.example/mcp"),
    "root audience": lambda it: it.token(aud="https://example.com"),
    "audience with a slash": lambda it: it.token(aud="https://example.com/mcp/"),
    "longer audience": lambda it: it.token(aud="https://example.com/mcp/tools"),
    "audience in other letters": lambda it: it.token(aud="https://EXAMPLE.com/mcp"),
    "no audience": lambda it: it.token(aud=None),
    "empty audience": lambda it: it.token(aud=[]),
    "audience no text": lambda it: it.token(aud={RESOURCE: 1}),
    "bound to a key": lambda it: it.token(
        cnf={"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}
    ),
    "scope a number": lambda it: it.token(scope=5),
    "scope 0": lambda it: it.token(scope=0),
    "scope true": lambda it: it.token(scope=True),
    "scope an object": lambda it: it.token(scope={"mcp": 1}),
    "scope a list of numbers": lambda it: it.token(scope=[5]),
    "scope a list with null": lambda it: it.token(scope=["mcp", None]),
    "scope a list of lists": lambda it: it.token(scope=[["mcp"]]),
    "scp a number": lambda it: it.token(scope=None, scp=1.5),
    "permissions an object": lambda it: it.token(scope=None, permissions={}),
    "exp infinite": lambda it: it.token(exp=1e999),
    "nbf infinite": lambda it: it.token(nbf=1e999),
    "iat infinite": lambda it: it.token(iat=1e999),
    "exp no number at all": lambda it: it.token(exp=float("nan")),
    "exp a list": lambda it: it.token(exp=[1]),
    "nbf an object": lambda it: it.token(nbf={}),
    "user of no character": lambda it: it.token(sub="\0"),
    "user of half a character": lambda it: it.token(sub="ada\ud800"),
    "client of half a character": lambda it: it.token(sub="nobody", client_id="\ud800"),
    "user a number": lambda it: it.token(sub=5),
    "unknown user": lambda it: it.token(sub="nobody"),
    "no user": lambda it: it.token(sub=None),
    "empty user": lambda it: it.token(sub=""),
}
# No class recognises these for certain, and none accepts them.
FOREIGN: dict[str, Any] = {
    "foreign issuer": lambda it: it.token(iss="https://evil.example"),
    "issuer with a slash": lambda it: it.token(iss=f"{it.url}/"),
    "no issuer": lambda it: it.token(iss=None),
    "issuer a list": lambda it: (
        f"{part({'alg': 'RS256'})}.{part({**it.claims(), 'iss': [it.url]})}.AAAA"
    ),
    "no JWT": lambda it: "neither.a.jwt",
    "one part": lambda it: "x",
    "five parts": lambda it: ".".join([part({"alg": "RSA-OAEP"}), *"abcd"]),
    "deep": lambda it: f"{part(b'[' * 9000)}.{part({})}.AAAA",
    "payload deep": lambda it: f"{part({'alg': 'RS256'})}.{part(b'[' * 9000)}.AAAA",
    "a number of 9000 digits": lambda it: f"{part({'alg': 'RS256'})}.{part(b'9' * 9000)}.AAAA",
    "payload no object": lambda it: f"{part({'alg': 'RS256'})}.{part([it.url])}.AAAA",
    "too long": lambda it: it.token(junk="x" * 17000),
    "two tokens": lambda it: f"{it.token()} {it.token()}",
    # Two headers, as WSGI and ASGI pass them on.
    "two headers": lambda it: f"{it.token()},Bearer {it.token()}",
}


def pem() -> bytes:
    key = private_key("RS256").public_key()
    found: bytes = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return found


def own_jwk() -> dict[str, Any]:
    return public_jwk(private_key("RS256", 1), "RS256", kid="own")


def changed(token: str) -> str:
    header, payload, signature = token.split(".")
    claims = jwt.decode(token, options={"verify_signature": False})
    return f"{header}.{part({**claims, 'sub': 'admin'})}.{signature}"


@pytest.mark.parametrize("name", [*BAD, *FOREIGN])
def test_invalid_token_is_401_and_recorded(
    issuer: Issuer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    get_user_model().objects.create_superuser("admin")
    issuer.serve("/own-keys", {"keys": [own_jwk()]})
    token = {**BAD, **FOREIGN}[name](issuer)
    response = refused(token)
    assert response.status_code == 401
    challenge = response["WWW-Authenticate"]
    assert challenge == (
        'Bearer realm="mcp", error="invalid_token", '
        'resource_metadata="https://example.com/.well-known/oauth-protected-resource/mcp"'
    )
    record = ToolCallRecord.objects.get()
    assert (record.outcome, record.error_code) == ("refused", "unauthenticated")
    assert "/own-keys" not in issuer.asked
    # Nothing of the credential leaks, and an administrator can read why it was refused.
    signature = token.rpartition(".")[2]
    for text in (response.content.decode(), challenge, str(vars(record)), caplog.text):
        assert len(signature) < 3 or signature not in text
    said = "was refused" in caplog.text
    assert said is (name in BAD and not name.startswith("crit"))


@pytest.mark.parametrize("name", [*BAD, *FOREIGN])
def test_invalid_token_is_401_in_any_class_order(issuer: Issuer, name: str, settings: Any) -> None:
    token = {**BAD, **FOREIGN}[name](issuer)
    for order in ([OTHER, CLASS, TOKENS], [TOKENS, CLASS, OTHER]):
        settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "AUTHENTICATION_CLASSES": order}
        assert refused(token).status_code == 401


def test_several_issuers_can_be_configured(
    issuer: Issuer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Issuer()
    try:
        other.jwks = [public_jwk(private_key("ES256"), "ES256", kid="a")]
        monkeypatch.setattr(OtherAuthentication, "issuer", other.url)
        for order in ([CLASS, OTHER], [OTHER, CLASS]):
            settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "AUTHENTICATION_CLASSES": order}
            assert called(issuer.token())["user"] == "ada"
            assert called(other.token(None, "ES256"))["user"] == "ada"
            # The keys of one are not good for the name of the other.
            assert refused(issuer.token(iss=other.url)).status_code == 401
    finally:
        other.stop()


def test_clock_skew_of_a_minute_is_tolerated(issuer: Issuer) -> None:
    now = int(time.time())
    assert status(issuer.token(exp=now - 50)) == 200
    assert status(issuer.token(nbf=now + 50, iat=now + 50)) == 200


def test_one_matching_audience_is_enough(issuer: Issuer) -> None:
    assert called(issuer.token(aud=["account", RESOURCE]))["audience"] == [RESOURCE]


def test_audience_can_be_configured(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IssuerAuthentication, "audience", "11111111-2222")
    assert called(issuer.token(aud="11111111-2222"))["audience"] == [RESOURCE]
    assert status(issuer.token()) == 401


def test_key_is_not_used_against_its_declared_use(issuer: Issuer) -> None:
    for members in ({"use": "enc"}, {"alg": "PS256"}):
        issuer.jwks = [{**issuer.jwks[0], "use": "sig", "kid": str(members), **members}]
        jwks.keys_of.cache_clear()
        assert status(issuer.token(header={"kid": str(members)})) == 401


def test_weak_keys_are_not_used(issuer: Issuer) -> None:
    weak = rsa.generate_private_key(65537, 1024)
    issuer.jwks = [public_jwk(weak, "RS256", kid="a")]
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        token = issuer.token(weak)
    assert status(token) == 401


def test_unreadable_keys_do_not_hide_valid_keys(issuer: Issuer) -> None:
    bad = [{"kid": "a"}, {"kid": "a", "kty": "future"}, {"kid": "a", "kty": "RSA", "n": "!"}, 7]
    issuer.jwks = [*bad, {"kid": "a", "kty": "oct", "k": "c2VjcmV0"}, *issuer.jwks]  # type: ignore[list-item]
    assert status(issuer.token()) == 200
    assert status(issuer.unsigned({"alg": "HS256"}, b"secret")) == 401


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "a b"}, ["a", "b"]),
        ({"scope": None, "scp": "a b"}, ["a", "b"]),
        ({"scope": None, "scp": ["a", "b"]}, ["a", "b"]),
        ({"scope": None, "permissions": ["a"]}, ["a"]),
        ({"scope": "a", "permissions": ["a", "b"]}, ["a"]),
        ({"scope": ""}, []),
        ({"scope": None}, []),
    ],
)
def test_scopes_are_read_from_the_claims_of_each_provider(
    issuer: Issuer, claims: dict[str, Any], scopes: list[str]
) -> None:
    assert called(issuer.token(**claims))["scopes"] == scopes


@pytest.mark.parametrize("scope", [None, "", "openid", "MCP"])
def test_missing_scope_is_403_and_recorded(
    issuer: Issuer, scope: str | None, settings: Any
) -> None:
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "AUTHORIZATION_SERVERS": [issuer.url]}
    serve(settings, whoami, scopes="mcp")
    response = refused(issuer.token(scope=scope))
    assert response.status_code == 403
    assert response["WWW-Authenticate"] == (
        'Bearer realm="mcp", error="insufficient_scope", scope="mcp", '
        'resource_metadata="https://example.com/.well-known/oauth-protected-resource/mcp"'
    )
    record = ToolCallRecord.objects.get()
    assert (record.outcome, record.credential) == ("refused", "laptop")
    assert called(issuer.token(scope="openid mcp"))["user"] == "ada"


@pytest.mark.parametrize("name", ["client_id", "azp", "cid", "appid"])
def test_record_names_the_client(issuer: Issuer, name: str) -> None:
    called(issuer.token(**{"client_id": None, name: "desktop"}))
    assert ToolCallRecord.objects.get().credential == "desktop"


@pytest.mark.parametrize("name", ["\ud800", "\0", "a" * 5000, 5, ["a"], {"a": "\ud800"}])
def test_arbitrary_client_names_are_recorded(issuer: Issuer, name: Any) -> None:
    assert called(issuer.token(client_id=name))["user"] == "ada"
    assert ToolCallRecord.objects.get().outcome == "succeeded"


def test_credential_rates_count_each_user_of_a_client(issuer: Issuer, settings: Any) -> None:
    settings.MCP_BRIDGE = {
        **settings.MCP_BRIDGE,
        "THROTTLE_CLASSES": ["mcp_bridge.access.throttling.CredentialRateThrottle"],
        "THROTTLE_RATES": {"tools": "1/hour"},
    }
    get_user_model().objects.create_user("bob")
    for sub in ("ada", "bob"):
        assert not CheckedClient(token=issuer.token(sub=sub)).call_tool("whoami").get("isError")
        # Another token of the same client does not count as another caller.
        again = CheckedClient(token=issuer.token(sub=sub, jti="another")).call_tool("whoami")
        assert again["isError"]


def test_deactivated_user_is_401(issuer: Issuer) -> None:
    get_user_model().objects.update(is_active=False)
    assert status(issuer.token()) == 401


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"email": "ada@example.com", "email_verified": True}, 200),
        ({"email": "ada@example.com", "email_verified": False}, 401),
        ({"email": "ada@example.com", "email_verified": "true"}, 401),
        ({"email": "ada@example.com"}, 401),
        ({"email": "both@example.com", "email_verified": True}, 401),
        ({"email": "", "email_verified": True}, 401),
    ],
)
def test_only_verified_unique_email_identifies_a_user(
    issuer: Issuer, claims: dict[str, Any], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IssuerAuthentication, "user_claim", "email")
    monkeypatch.setattr(IssuerAuthentication, "user_field", "email")
    users = get_user_model().objects
    users.update(email="ada@example.com")
    for name in ("bob", "eve"):
        users.create_user(name, email="both@example.com")
    users.create_user("nameless")
    assert status(issuer.token(**claims)) == expected


@pytest.mark.parametrize("algorithms", [["HS256"], ["RS256", "none"], ["RS256", "HS512"]])
def test_class_cannot_allow_an_unsafe_algorithm(algorithms: list[str]) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"Mine\.algorithms must not have"):
        type("Mine", (JWTAuthentication,), {"algorithms": algorithms})


def test_class_can_restrict_algorithms(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IssuerAuthentication, "algorithms", ["ES256"])
    assert status(issuer.token()) == 401
    monkeypatch.setattr(IssuerAuthentication, "algorithms", ["RS256"])
    monkeypatch.setattr(IssuerAuthentication, "token_types", ["at+jwt"])
    assert status(issuer.token(header={"typ": "JWT"})) == 401
    assert status(issuer.token()) == 200


@pytest.mark.parametrize("missing", ["issuer", "audience"])
def test_class_without_issuer_or_audience_refuses_all_tokens(
    issuer: Issuer,
    missing: str,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if missing == "issuer":
        monkeypatch.setattr(IssuerAuthentication, "issuer", "")
    else:
        settings.MCP_BRIDGE = {"AUTHENTICATION_CLASSES": [CLASS], "REQUIRE_AUDIENCE": False}
    response = refused(issuer.token())
    assert response.json()["error"]["code"] == -32603
    assert "Set IssuerAuthentication.issuer, and MCP_BRIDGE['RESOURCE']." in caplog.text


def documented(name: str, **attributes: Any) -> type[JWTAuthentication]:
    """Return a class of docs/access/jwt.md with these attributes; its issuer is kept."""
    base: type[JWTAuthentication] = run("access/jwt", f"class {name}")[name]
    return type(name, (base,), attributes)


# Claims that are specific to each provider's tokens, and the class of the page.
PROVIDERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "KeycloakAuthentication": (
        {"typ": "JWT"},
        {
            "aud": [RESOURCE, "account"],
            "typ": "Bearer",
            "azp": "laptop",
            "client_id": None,
            "sub": "1b2c",
            "preferred_username": "ada",
            "scope": "openid mcp",
        },
    ),
    "Auth0Authentication": (
        {"typ": "JWT"},
        {
            "aud": [RESOURCE, "https://TENANT.eu.auth0.com/userinfo"],
            "azp": "laptop",
            "client_id": None,
            "sub": "auth0|1",
            "https://example.com/email": "ada@example.com",
            "scope": "openid mcp",
            "permissions": ["mcp", "admin"],
        },
    ),
    "EntraAuthentication": (
        {"typ": "JWT", "x5t": "a"},
        {
            "aud": "APPLICATION-ID",
            "azp": "laptop",
            "client_id": None,
            "ver": "2.0",
            "scope": None,
            "scp": "tools",
            "oid": "ada",
            "sub": "pairwise",
        },
    ),
    "OktaAuthentication": (
        {"typ": None},
        {
            "cid": "laptop",
            "client_id": None,
            "sub": "ada@example.com",
            "scope": None,
            "scp": ["mcp"],
        },
    ),
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_provider_tokens_are_read_as_documented(
    issuer: Issuer, name: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    header, claims = PROVIDERS[name]
    get_user_model().objects.update(email="ada@example.com")
    # The providers are not contacted: their keys are local, their issuer names are real.
    theirs = documented(name, jwks_url=f"{issuer.url}{KEYS}")
    monkeypatch.setattr(sys.modules[__name__], "Documented", theirs, raising=False)
    settings.MCP_BRIDGE = {
        **settings.MCP_BRIDGE,
        "AUTHENTICATION_CLASSES": [f"{__name__}.Documented"],
    }
    found = called(issuer.token(header=header, iss=theirs.issuer, **claims))
    scope = f"{RESOURCE}/tools" if name.startswith("Entra") else "mcp"
    assert (found["user"], found["audience"]) == ("ada", [RESOURCE])
    assert set(found["scopes"]) - {"openid"} == {scope}
    assert ToolCallRecord.objects.get().credential == "laptop"


@pytest.mark.parametrize(("groups", "expected"), [(["staff"], 200), (["guests"], 401), ([], 401)])
def test_site_can_create_users_from_tokens(
    issuer: Issuer,
    groups: list[str],
    expected: int,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = documented("StaffAuthentication", issuer=issuer.url)
    monkeypatch.setattr(sys.modules[__name__], "Documented", theirs, raising=False)
    settings.MCP_BRIDGE = {
        **settings.MCP_BRIDGE,
        "AUTHENTICATION_CLASSES": [f"{__name__}.Documented"],
    }
    assert status(issuer.token(sub="new", groups=groups)) == expected
    assert get_user_model().objects.filter(username="new").exists() is (expected == 200)
