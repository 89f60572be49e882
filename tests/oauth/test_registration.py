"""Client registration, by the bodies that clients send."""

from __future__ import annotations

import json
import socket
from datetime import timedelta
from io import BytesIO
from typing import Any, ClassVar

import pytest
import urllib3
from django.contrib.auth.hashers import MD5PasswordHasher
from django.test import Client
from django.utils import timezone
from oauth2_provider.cimd import SafeMetadataFetcher
from oauth2_provider.models import Application
from oauth2_provider.oauth2_validators import OAuth2Validator

from mcp_bridge.oauth import consent
from mcp_bridge.oauth.registration import ClientRegistration, RegistrationRateThrottle
from tests.oauth.clients import RESOURCE, OAuthClient, answered, register
from tests.oauth.conftest import OAUTH2_PROVIDER

CODE = ["authorization_code", "refresh_token"]
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
PUBLIC = {"token_endpoint_auth_method": "none", "response_types": ["code"], "grant_types": CODE}
CURSOR = "cursor://anysphere.cursor-mcp/oauth/callback"
BODIES: dict[str, dict[str, Any]] = {
    "Claude": {
        **PUBLIC,
        "client_name": "Claude",
        "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"],
        "scope": "claudeai",
    },
    "Claude Code": {
        **PUBLIC,
        "client_name": "Claude Code (newsroom)",
        "redirect_uris": ["http://localhost:52114/callback"],
    },
    "ChatGPT": {
        **PUBLIC,
        "client_name": "ChatGPT",
        "redirect_uris": ["https://chatgpt.com/connector/oauth/9Vz_1-a"],
    },
    "Cursor": {
        **PUBLIC,
        "client_name": "Cursor",
        "redirect_uris": [
            CURSOR,
            "https://www.cursor.com/agents/mcp/oauth/callback",
            "http://localhost:8787/callback",
        ],
        "application_type": "web",
    },
    "VS Code": {
        **PUBLIC,
        "client_name": "Visual Studio Code",
        "client_uri": "https://code.visualstudio.com",
        "grant_types": [*CODE, DEVICE],
        "redirect_uris": [
            "https://insiders.vscode.dev/redirect",
            "https://vscode.dev/redirect",
            "http://127.0.0.1/",
            "http://127.0.0.1:33418/",
        ],
        "application_type": "native",
    },
    "IPv6": {**PUBLIC, "redirect_uris": ["http://[::1]:4711/callback"]},
    # The minimum that RFC 7591 requires.
    "the least": {"redirect_uris": ["https://client.example/callback"]},
}


def of(*uris: Any, **more: Any) -> dict[str, Any]:
    return {**PUBLIC, "redirect_uris": list(uris), **more}


URI, METADATA = "invalid_redirect_uri", "invalid_client_metadata"
REFUSED: dict[str, tuple[str, Any]] = {
    "plain http": (URI, of("http://evil.example/cb")),
    "one of two": (URI, of("https://good.example/cb", "http://evil.example/cb")),
    "a name like a loopback": (URI, of("http://localhost.evil.example/cb")),
    "a user that looks like a loopback": (URI, of("http://localhost@evil.example/cb")),
    "a user": (URI, of("https://good.example@evil.example/cb")),
    "a script": (URI, of("javascript:alert(1)")),
    "data": (URI, of("data:text/html,hello")),
    "another of Cursor's": (URI, of("cursor://evil/cb")),
    "more than Cursor's": (URI, of(f"{CURSOR}/more")),
    "a fragment": (URI, of("https://good.example/cb#part")),
    "an empty fragment": (URI, of("https://good.example/cb#")),
    "no host": (URI, of("https:///cb")),
    "two in one": (URI, of("https://good.example/cb http://evil.example/cb")),
    "a line break": (URI, of("https://good.example/cb\nhttp://evil.example/cb")),
    "a broken address": (URI, of("https://[good.example/cb")),
    "a wildcard": (URI, of("https://*.example.com/cb")),
    "an endless one": (URI, of("https://good.example/" + "a" * 2000)),
    "too many": (URI, of(*(f"https://good.example/{number}" for number in range(21)))),
    "none": (URI, of()),
    "no list": (URI, {**PUBLIC, "redirect_uris": "https://good.example/cb"}),
    "no text": (URI, of(7)),
    "passwords": (METADATA, of("https://good.example/cb", grant_types=["password"])),
    "a port that there is not": (URI, of("https://good.example:99999/cb")),
    "port 0": (URI, of("https://good.example:0/cb")),
    "a port of a loopback that there is not": (URI, of("http://127.0.0.1:65536/cb")),
    "two ports": (URI, of("http://127.0.0.1:80:80/cb")),
    "two ports of a name": (URI, of("https://good.example:443:443/cb")),
    "a port that is no number": (URI, of("https://good.example:8a/cb")),
    "an encoded @": (URI, of("https://good.example%40evil.example/cb")),
    "an encoded @ of a loopback": (URI, of("http://localhost%40evil.example/cb")),
    "an encoded slash": (URI, of("https://good.example%2Fevil.example/cb")),
    "an encoded port": (URI, of("https://good.example%3A443/cb")),
    "null for redirect URIs": (URI, {**PUBLIC, "redirect_uris": None}),
    "null among redirect URIs": (URI, of("https://good.example/cb", None)),
    "null among grants": (METADATA, of("https://good.example/cb", grant_types=[*CODE, None])),
    "no grants": (METADATA, of("https://good.example/cb", grant_types=[])),
    "machines": (METADATA, of("https://good.example/cb", grant_types=["client_credentials"])),
    "implicit": (METADATA, of("https://good.example/cb", grant_types=["implicit"])),
    "tokens at once": (METADATA, of("https://good.example/cb", response_types=["token"])),
    "refreshing alone": (METADATA, of("https://good.example/cb", grant_types=["refresh_token"])),
    "keys": (
        METADATA,
        of("https://good.example/cb", token_endpoint_auth_method="private_key_jwt"),
    ),
    "a number for a name": (METADATA, of("https://good.example/cb", client_name=7)),
}


@pytest.mark.requirement("as.redirect-https")
@pytest.mark.parametrize("name", BODIES)
def test_known_clients_can_register(name: str) -> None:
    body = BODIES[name]
    answer = register(**body)
    assert answer.status_code == 201, answer.content
    assert answer["Cache-Control"] == "no-store"
    given = answer.json()
    assert given["redirect_uris"] == body["redirect_uris"]
    assert given["grant_types"] == CODE
    assert given["client_name"] == body.get("client_name", "")
    application = Application.objects.get(client_id=given["client_id"])
    assert application.registration_source == "dcr"
    assert not application.skip_authorization
    assert application.user is None


@pytest.mark.requirement("as.redirect-trusted", "as.redirect-https")
@pytest.mark.parametrize("name", REFUSED)
def test_unsafe_metadata_is_refused_as_in_rfc_7591(name: str) -> None:
    code, body = REFUSED[name]
    answer = register(**body)
    assert (answer.status_code, answer.json()["error"]) == (400, code), answer.content
    assert len(answer.content) < 500
    assert not Application.objects.exists()


LEAST = BODIES["the least"]
OPTIONAL = [
    *("client_name", "grant_types", "response_types", "token_endpoint_auth_method", "scope"),
    *("client_uri", "logo_uri", "contacts", "jwks", "software_statement", "client_secret"),
]


@pytest.mark.parametrize("names", [*([name] for name in OPTIONAL), OPTIONAL])
def test_null_members_count_as_absent(names: list[str]) -> None:
    absent = register(**LEAST)
    answer = register(**LEAST, **dict.fromkeys(names))
    assert (answer.status_code, absent.status_code) == (201, 201), answer.content
    given = [
        {name: value for name, value in each.json().items() if not name.startswith("client_")}
        for each in (absent, answer)
    ]
    assert given[0] == given[1]
    assert None not in given[1].values()


@pytest.mark.parametrize(
    "more",
    [
        {"grant_types": [*CODE, "password"]},
        {"grant_types": ["implicit", "authorization_code"]},
        {"grant_types": ["authorization_code"]},
        {"grant_types": [*CODE, DEVICE, "client_credentials", "urn:example:unknown"]},
        {"response_types": ["code", "token"]},
        {"response_types": ["id_token", "code"], "grant_types": [*CODE, "implicit"]},
    ],
)
def test_response_contains_the_granted_metadata(more: dict[str, Any], user: Any) -> None:
    given = register(**of("https://good.example/cb", **more)).json()
    assert (given["grant_types"], given["response_types"]) == (CODE, ["code"])
    application = Application.objects.get(client_id=given["client_id"])
    assert application.authorization_grant_type == "authorization-code"
    body = {"grant_type": "password", "username": "ada", "password": "x", "scope": "mcp"}
    refused = Client().post("/oauth/token/", {**body, "client_id": given["client_id"]}, secure=True)
    assert refused.status_code in (400, 401)


class Counted(MD5PasswordHasher):
    """A hasher that records what it hashes."""

    algorithm = "counted"
    hashed: ClassVar[list[str]] = []

    def encode(self, password: str, salt: str) -> str:
        self.hashed.append(password)
        return super().encode(password, salt)


@pytest.fixture
def hashed(settings: Any) -> list[str]:
    """The passwords and secrets that have been hashed."""
    settings.PASSWORD_HASHERS = [f"{__name__}.Counted"]
    Counted.hashed.clear()
    return Counted.hashed


@pytest.mark.parametrize("name", [each for each in BODIES if each != "the least"])
def test_public_clients_secrets_are_not_hashed(
    hashed: list[str], user: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    given = register(**BODIES[name]).json()
    document(monkeypatch, **BODIES[name])
    client = OAuthClient(user)
    client.client_id = DOCUMENT
    assert client.ask(redirect_uri=BODIES[name]["redirect_uris"][-1]).status_code == 200
    assert hashed == []
    for client_id in (given["client_id"], DOCUMENT):
        application = Application.objects.get(client_id=client_id)
        application.save()
        assert hashed == []
        # Neither is a secret valid; with an empty hash, an empty one might be.
        assert not any(
            OAuth2Validator()._check_secret(each, application.client_secret) for each in ("", "x")
        )


def test_secret_of_a_confidential_client_is_hashed(hashed: list[str]) -> None:
    given = register(**LEAST).json()
    assert hashed == [given["client_secret"]]


@pytest.mark.parametrize("letter", ["a", " ", "\n", "\u202e", "é", "\0"])
def test_long_name_is_truncated_before_cleaning(
    letter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []
    shows = consent.shows
    monkeypatch.setattr(consent, "shows", lambda it: looked_at.append(it) or shows(it))
    given = register(**of("https://good.example/cb", client_name="Good " + letter * 400_000))
    assert given.json()["client_name"].startswith("Good")
    assert len(given.json()["client_name"]) <= 81
    assert len(looked_at) < 10_000


@pytest.mark.parametrize("body", ["", "{", "[]", "null", "7", b"\xff"])
def test_non_object_body_is_refused(body: str | bytes) -> None:
    answer = Client().post("/oauth/register/", body, content_type="application/json", secure=True)
    assert (answer.status_code, answer.json()["error"]) == (400, METADATA)


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
def test_confidential_client_receives_its_secret_once(method: str) -> None:
    given = register(
        redirect_uris=["https://good.example/cb"], token_endpoint_auth_method=method
    ).json()
    assert given["token_endpoint_auth_method"] == method
    assert given["client_secret_expires_at"] == 0
    application = Application.objects.get()
    assert application.client_type == "confidential"
    assert given["client_secret"] not in application.client_secret
    assert "client_secret" not in OAuthClient().registered


def test_client_name_is_truncated_and_shown_literally() -> None:
    name = "Good\u202eevil\nclient\x00 " + "a" * 5000
    given = register(**of("https://good.example/cb", client_name=name)).json()
    assert given["client_name"] == "Good evil client " + "a" * 63 + "…"
    assert Application.objects.get().name == given["client_name"]


def test_registration_is_independent_of_the_session_user(user: Any) -> None:
    browser = Client()
    browser.force_login(user)
    browser.post(
        "/oauth/register/",
        '{"redirect_uris": ["https://good.example/cb"]}',
        content_type="application/json",
        secure=True,
    )
    assert Application.objects.get().user is None


def register_from(address: str, client: Client) -> Any:
    return client.post(
        "/oauth/register/",
        json.dumps(LEAST),
        content_type="application/json",
        secure=True,
        REMOTE_ADDR=address,
    )


NETWORK = [f"2001:db8:0:1::{number:x}" for number in range(1, 5)]


@pytest.fixture
def rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of two registrations an hour for each network."""
    monkeypatch.setattr(RegistrationRateThrottle, "rate", "2/hour")


@pytest.mark.parametrize(
    "addresses",
    [
        ["192.0.2.1"] * 4,
        NETWORK,
        ["192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201", "192.0.2.1"],
        ["2001:db8:0:1:ffff::1", "2001:DB8:0:1::", "2001:db8::1:0:0:0:9", NETWORK[0]],
    ],
)
@pytest.mark.parametrize("session", [False, True])
def test_registration_is_rate_limited(
    rate: None, user: Any, addresses: list[str], session: bool
) -> None:
    client = Client()
    if session:
        client.force_login(user)
    answers = [register_from(address, client) for address in addresses]
    assert [each.status_code for each in answers] == [201, 201, 429, 429]
    assert 0 < int(answers[-1]["Retry-After"]) <= 3600
    assert register_from("2001:db8:0:2::1", client).status_code == 201


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("path", ["/oauth/authorize/", "/oauth/token/", "/oauth/revoke/"])
def test_documents_of_clients_count_as_registrations(
    rate: None, user: Any, monkeypatch: pytest.MonkeyPatch, session: bool, path: str
) -> None:
    client, fetched = Client(), documents(monkeypatch)
    if session:
        client.force_login(user)
    for number, address in enumerate(NETWORK):
        body = {"client_id": f"{DOCUMENT}?{number}", "prompt": "none", "token": "x"}
        body |= {"grant_type": "refresh_token", "refresh_token": "x"}
        send = client.get if path == "/oauth/authorize/" else client.post
        answer = send(path, body, secure=True, REMOTE_ADDR=address)
        assert answer.status_code < 500
    assert fetched == [f"{DOCUMENT}?{number}" for number in range(2)]
    assert Application.objects.count() == 2
    assert register_from(NETWORK[0], client).status_code == 429


def test_known_document_is_valid_beyond_the_rate(
    rate: None, user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = documents(monkeypatch)
    client = OAuthClient(user)
    client.client_id = DOCUMENT
    asked = {"redirect_uri": "http://localhost/callback"}
    assert client.ask(**asked).status_code == 200
    assert register(**LEAST).status_code == 429
    # An outdated document is fetched again, which the rate does not allow now.
    Application.objects.update(cimd_expires_at=timezone.now())
    assert client.ask(**asked).status_code == 200
    assert fetched == [DOCUMENT]


@pytest.mark.parametrize("is_logged_in", [False, True])
@pytest.mark.parametrize("prompt", [None, "none", "login"])
def test_foreign_resource_does_not_fetch_a_document(
    user: Any, monkeypatch: pytest.MonkeyPatch, is_logged_in: bool, prompt: str | None
) -> None:
    fetched = documents(monkeypatch)
    client = OAuthClient(user if is_logged_in else None)
    client.client_id = DOCUMENT
    asked = {"redirect_uri": "http://localhost/callback", "prompt": prompt}
    foreign = {**asked, "resource": "https://evil.example/mcp"}
    refused = client.ask(**foreign)
    assert (refused.status_code, "Location" in refused, fetched) == (400, False, [])
    assert b"Resources here are" in refused.content
    # A known client receives the error.
    other = OAuthClient(user)
    other.client_id = DOCUMENT
    other.ask(**asked, resource=RESOURCE)
    if prompt is None:
        assert answered(client.ask(**foreign))["error"] == "invalid_target"
    Application.objects.update(cimd_expires_at=timezone.now() - timedelta(days=1))
    assert client.ask(**foreign).status_code == 400
    assert len(fetched) <= 1


def test_site_can_refuse_registration(settings: Any) -> None:
    permission = "oauth2_provider.dcr.IsAuthenticatedDCRPermission"
    settings.OAUTH2_PROVIDER = {
        **OAUTH2_PROVIDER,
        "DCR_REGISTRATION_PERMISSION_CLASSES": [permission],
    }
    assert register(**of("https://good.example/cb")).status_code == 401
    # A permitted registration still follows the rules.
    assert register(**of("http://evil.example/cb")).status_code == 400
    settings.OAUTH2_PROVIDER = {**OAUTH2_PROVIDER, "DCR_ENABLED": False}
    assert register(**of("https://good.example/cb")).status_code == 404
    assert not Application.objects.exists()


class WithZed(ClientRegistration):
    private_use_uris = ("zed://oauth/callback",)


def test_site_can_list_other_schemes(settings: Any) -> None:
    zed = of("zed://oauth/callback")
    assert register(**zed).status_code == 400
    settings.OAUTH2_PROVIDER = {
        **OAUTH2_PROVIDER,
        "DCR_REGISTRATION_PERMISSION_CLASSES": [f"{__name__}.WithZed"],
    }
    forgotten = register(**zed)
    assert (forgotten.status_code, forgotten.json()["error"]) == (400, URI)
    settings.OAUTH2_PROVIDER |= {"ALLOWED_REDIRECT_URI_SCHEMES": ["http", "https", "zed"]}
    settings.OAUTH2_PROVIDER = dict(settings.OAUTH2_PROVIDER)
    assert register(**zed).status_code == 201
    assert register(**of(CURSOR)).status_code == 400


def test_registered_client_cannot_be_changed_over_http() -> None:
    given = register(**of("https://good.example/cb")).json()
    assert not {"registration_access_token", "registration_client_uri"} & given.keys()
    for address in ("", f"{given['client_id']}", f"{given['client_id']}/"):
        answer = Client().put(f"/oauth/register/{address}", "{}", secure=True)
        assert answer.status_code in (404, 405)


DOCUMENT = "https://client.example/oauth/metadata.json"


def documents(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have a document at every address, and return those that are fetched."""
    fetched: list[str] = []

    def fetch(self: Any, client_id: str) -> tuple[dict[str, Any], int]:
        fetched.append(client_id)
        return {**GOOD, "client_id": client_id, "redirect_uris": ["http://localhost/callback"]}, 300

    monkeypatch.setattr(SafeMetadataFetcher, "fetch", fetch)
    return fetched


def document(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    """Have the client's document at DOCUMENT, which cannot be fetched from here."""
    metadata = {
        "client_id": DOCUMENT,
        "client_name": "Client",
        "redirect_uris": ["http://localhost/callback"],
        **changed,
    }
    metadata = {name: each for name, each in metadata.items() if each != ""}
    monkeypatch.setattr(SafeMetadataFetcher, "fetch", lambda self, client_id: (metadata, 300))


@pytest.mark.requirement("as.document-redirects")
@pytest.mark.parametrize("name", [each for each in BODIES if each != "the least"])
def test_clients_can_be_identified_by_documents(
    user: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    document(monkeypatch, **BODIES[name])
    client = OAuthClient(user)
    client.client_id = DOCUMENT
    uri = BODIES[name]["redirect_uris"][-1]
    assert client.ask(redirect_uri=uri).status_code == 200
    application = Application.objects.get(client_id=DOCUMENT)
    assert (application.registration_source, application.client_type) == ("cimd", "public")


@pytest.mark.requirement("as.document-valid")
@pytest.mark.parametrize("name", REFUSED)
def test_documents_follow_the_rules_of_registration(
    user: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _, body = REFUSED[name]
    document(monkeypatch, **body)
    client = OAuthClient(user)
    client.client_id = DOCUMENT
    uris = body["redirect_uris"]
    uri = uris[-1] if isinstance(uris, list) and uris else "https://good.example/cb"
    assert client.ask(redirect_uri=uri).status_code == 400
    assert not Application.objects.filter(client_id=DOCUMENT).exists()


@pytest.mark.requirement("as.document-own")
@pytest.mark.parametrize("named", [f"{DOCUMENT}/", DOCUMENT.upper(), "other", None])
def test_document_must_name_its_own_address(
    user: Any, monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    document(monkeypatch, client_id=named)
    client = OAuthClient(user)
    client.client_id = DOCUMENT
    assert client.ask(redirect_uri="http://localhost/callback").status_code == 400
    assert not Application.objects.filter(client_id=DOCUMENT).exists()


@pytest.mark.requirement("as.document-valid")
@pytest.mark.parametrize("name", ["client_id", "client_name", "redirect_uris"])
def test_incomplete_document_is_refused(
    user: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    document(monkeypatch, **{name: ""})
    client = OAuthClient(user)
    client.client_id = DOCUMENT
    assert client.ask(redirect_uri="http://localhost/callback").status_code == 400
    assert not Application.objects.filter(client_id=DOCUMENT).exists()


@pytest.mark.parametrize(
    "name", ["client_uri", "grant_types", "token_endpoint_auth_method", "client_secret", "scope"]
)
def test_null_members_of_a_document_count_as_absent(
    user: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    document(monkeypatch, **{name: None})
    client = OAuthClient(user)
    client.client_id = DOCUMENT
    assert client.ask(redirect_uri="http://localhost/callback").status_code == 200


JSON = "application/json"
GOOD = {"client_id": DOCUMENT, "client_name": "Client", "redirect_uris": ["http://[::1]/cb"]}
FETCHED: dict[str, tuple[int, dict[str, Any]]] = {
    "good": (200, {}),
    "of a kind of JSON": (200, {"kind": "application/client+json; charset=utf-8"}),
    "cut": (400, {"body": json.dumps(GOOD)[:-1]}),
    "longer": (400, {"body": json.dumps(GOOD) + "x"}),
    "empty": (400, {"body": ""}),
    "of no encoding": (400, {"body": b"\xff" + json.dumps(GOOD).encode()}),
    "in quotes of Python": (400, {"body": str(GOOD)}),
    "a page": (400, {"body": "<html>", "kind": "text/html"}),
    "a list": (400, {"body": json.dumps([GOOD])}),
    "a text": (400, {"body": json.dumps(json.dumps(GOOD))}),
    "null": (400, {"body": "null"}),
    "called a page": (400, {"kind": "text/html"}),
    "called nothing": (400, {"kind": None}),
    "not there": (400, {"status": 404}),
    "elsewhere": (400, {"status": 302}),
}


@pytest.mark.requirement("as.document-valid")
@pytest.mark.parametrize("name", FETCHED)
def test_non_json_document_is_refused(
    user: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Only the network is not there: what it would bring is read as any site reads it."""

    def found(*known: Any, **more: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 443))]

    def fetched(self: Any, method: str, url: str, **known: Any) -> urllib3.HTTPResponse:
        asked.append(f"{method} https://{known['headers']['Host']}{url}")
        body, kind = answer.get("body", json.dumps(GOOD)), answer.get("kind", JSON)
        return urllib3.HTTPResponse(
            BytesIO(body if isinstance(body, bytes) else body.encode()),
            status=answer.get("status", 200),
            headers={} if kind is None else {"Content-Type": kind},
            preload_content=False,
        )

    asked: list[str] = []
    status, answer = FETCHED[name]
    client = OAuthClient(user)
    client.client_id = DOCUMENT
    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", found)
        patched.setattr(urllib3.HTTPSConnectionPool, "urlopen", fetched)
        assert client.ask(redirect_uri="http://[::1]:4711/cb").status_code == status
    assert asked == [f"GET {DOCUMENT}"]
    assert Application.objects.filter(client_id=DOCUMENT).exists() is (status == 200)


@pytest.mark.requirement("as.document-redirects")
def test_document_allows_no_other_redirect_uri(user: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    document(monkeypatch)
    client = OAuthClient(user)
    client.client_id = DOCUMENT
    assert client.ask(redirect_uri="http://localhost/callback").status_code == 200
    for uri in ("https://evil.example/callback", "http://localhost/callback/other"):
        answer = client.ask(redirect_uri=uri)
        assert (answer.status_code, answer.has_header("Location")) == (400, False)
        assert b"<form" not in answer.content
