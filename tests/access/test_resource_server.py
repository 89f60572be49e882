"""The endpoint as a protected resource of OAuth: metadata, challenges, audiences and scopes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connections
from django.test import Client
from rest_framework.authentication import BaseAuthentication

from mcp_bridge.access.scopes import features_by_scope, supported_scopes
from mcp_bridge.models import Scope, ToolCallRecord
from mcp_bridge.registry.registry import has_database
from mcp_bridge.testing import MCPClient, MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.revisions import ERAS, LEGACY
from tests.support.serving import set_tool, taking

RESOURCE = "https://example.com/mcp"
METADATA = "/.well-known/oauth-protected-resource"
DRF = "rest_framework.authentication"
# By secret: the claims of the credential.
ISSUED: dict[str, Any] = {}


@dataclass
class Credential:
    """A credential as django-oauth-toolkit has one."""

    resource: list[str] | None = field(default_factory=lambda: [RESOURCE])
    scope: str = "read"


@dataclass
class Granted:
    """A credential as allauth has one."""

    resources: list[str]

    def get_resources(self) -> list[str]:
        return self.resources


class Issued(BaseAuthentication):
    def authenticate(self, request: Any) -> Any:
        scheme, _, secret = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme != "Bearer" or secret not in ISSUED:
            return None
        return get_user_model().objects.get(username="ada"), ISSUED[secret]

    def authenticate_header(self, request: Any) -> str:
        return 'Bearer realm="site"'


def configure(settings: Any, **more: Any) -> None:
    settings.MCP_BRIDGE = {
        "RESOURCE": RESOURCE,
        "AUTHORIZATION_SERVERS": ["https://auth.example.com"],
        "AUTHENTICATION_CLASSES": ["tests.access.test_resource_server.Issued"],
        **more,
    }


@pytest.fixture(autouse=True)
def site(user: Any, settings: Any) -> None:
    ISSUED.clear()
    serve(settings, taking(int), scopes=["write", "delete"])
    configure(settings)


def client_with(credential: Any, **options: Any) -> CheckedClient:
    ISSUED["secret"] = credential
    return CheckedClient(token="secret", **options)


def challenge_of(client: MCPClient) -> tuple[int, dict[str, str]]:
    """Return the status of the last response, and the parameters of its challenge."""
    header = client.response.headers["WWW-Authenticate"]
    assert header.startswith("Bearer ")
    return client.response.status_code, dict(re.findall(r'(\w+)="([^"]*)"', header))


def refusal(client: MCPClient, method: str = "tools/list", **params: Any) -> Any:
    with pytest.raises(MCPError):
        client.post(method, **params)
    return challenge_of(client)


# Metadata (RFC 9728).


@pytest.mark.requirement("auth.metadata", "auth.discovery")
@pytest.mark.parametrize("path", [METADATA, f"{METADATA}/mcp"])
def test_metadata_names_the_configured_resource_for_every_host(path: str, settings: Any) -> None:
    configure(settings, SCOPES={"read": "Read"}, SERVER_INFO={"title": "News"})
    settings.ALLOWED_HOSTS = ["testserver", "other.example"]
    one, other = (
        MCPClient().http.get(path, headers={"Host": host})
        for host in ("testserver", "other.example")
    )
    assert one.content == other.content
    assert one.json() == {
        "resource": RESOURCE,
        "authorization_servers": ["https://auth.example.com"],
        "scopes_supported": ["write", "delete", "read"],
        "bearer_methods_supported": ["header"],
        "resource_name": "News",
    }
    assert one["Access-Control-Allow-Origin"] == "*"
    assert one["Cache-Control"] == "public, max-age=300"


@pytest.mark.parametrize(
    "path", [f"{METADATA}/", f"{METADATA}/other", f"{METADATA}/mcp/tools", f"{METADATA}/mcp/../x"]
)
def test_other_addresses_have_no_metadata(path: str) -> None:
    assert MCPClient().http.get(path).status_code == 404


def test_metadata_requires_a_resource(settings: Any) -> None:
    configure(settings, RESOURCE=None)
    assert MCPClient().http.get(METADATA).status_code == 404


@pytest.mark.requirement("auth.metadata")
def test_metadata_requires_an_authorization_server(settings: Any) -> None:
    configure(settings, AUTHORIZATION_SERVERS=[], ALLOW_ANONYMOUS=False)
    assert MCPClient().http.get(METADATA).status_code == 404
    status, challenge = refusal(MCPClient())
    assert (status, "resource_metadata" in challenge) == (401, False)


@pytest.mark.requirement("auth.metadata", "auth.discovery")
@pytest.mark.parametrize("path", [METADATA, f"{METADATA}/mcp"])
def test_metadata_needs_no_login(path: str, settings: Any) -> None:
    required = "django.contrib.auth.middleware.LoginRequiredMiddleware"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, required]
    response = MCPClient().http.get(path)
    assert (response.status_code, response.json()["resource"]) == (200, RESOURCE)


def test_metadata_is_refused_for_other_hosts() -> None:
    assert MCPClient().http.get(METADATA, headers={"Host": "evil.example"}).status_code == 400


def test_metadata_is_read_only() -> None:
    assert MCPClient().http.post(METADATA).status_code == 405


# Challenges (RFC 6750, section 3; RFC 9728, section 5.1).


def test_login_is_requested_despite_public_tools(
    settings: Any,
) -> None:
    serve(settings, taking(int), public=True)
    assert refusal(CheckedClient()) == (401, WHERE)
    assert CheckedClient().http.get("/mcp/tools/list").status_code == 401
    assert client_with(Credential()).list_tools()
    configure(settings, ALLOW_ANONYMOUS=True)
    assert CheckedClient().list_tools()
    configure(settings, ALLOW_ANONYMOUS=False, AUTHORIZATION_SERVERS=[])
    assert refusal(CheckedClient())[0] == 401


WHERE = {"realm": "site", "resource_metadata": "https://example.com" + METADATA + "/mcp"}


@pytest.mark.requirement("auth.discovery", "auth.scope-401", "auth.statuses")
def test_challenge_names_the_metadata(settings: Any) -> None:
    assert refusal(CheckedClient()) == (401, WHERE)
    configure(settings, DEFAULT_SCOPES=["read", "write"])
    assert refusal(CheckedClient()) == (401, {**WHERE, "scope": "read write"})


@pytest.mark.requirement("legacy.challenge")
@pytest.mark.parametrize("version", LEGACY)
def test_legacy_client_is_challenged_too(version: str) -> None:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {}}
    for method, sent in (("initialize", params), ("ping", {}), ("tools/list", {})):
        assert refusal(CheckedClient(revision=version), method, **sent) == (401, WHERE)
        told = {**WHERE, "error": "invalid_token"}
        assert refusal(CheckedClient(revision=version, token="x"), method, **sent) == (401, told)


@pytest.mark.requirement("auth.invalid-401")
def test_rejected_credential_is_named_invalid() -> None:
    assert refusal(CheckedClient(token="other")) == (401, {**WHERE, "error": "invalid_token"})


def test_client_of_another_scheme_finds_the_metadata_too(settings: Any) -> None:
    configure(settings, AUTHENTICATION_CLASSES=[f"{DRF}.BasicAuthentication"])
    client = CheckedClient()
    _, parameters = refusal(client)
    assert parameters["resource_metadata"] == WHERE["resource_metadata"]
    assert client.response["WWW-Authenticate"].endswith(', Basic realm="api"')


@pytest.mark.parametrize(
    "sent", ["Bearer secret, Bearer other", "Bearer", "secret", "Token secret"]
)
def test_header_that_no_class_takes_is_401(sent: str) -> None:
    client = client_with(Credential())
    client.headers["Authorization"] = sent
    assert refusal(client)[0] == 401
    assert ToolCallRecord.objects.get().error_code == "unauthenticated"


@pytest.mark.requirement("auth.no-query")
def test_token_in_the_address_is_ignored() -> None:
    ISSUED["secret"] = Credential()
    assert refusal(CheckedClient(path="/mcp?access_token=secret")) == (401, WHERE)


# The ways in which classes leave a credential.


class Claims(dict[str, Any]):
    """A credential as PyJWT leaves a JWT."""


@dataclass
class Wrapped:
    """A credential as simplejwt leaves a JWT."""

    payload: dict[str, Any]


@pytest.mark.requirement("auth.audience", "auth.no-others")
@pytest.mark.parametrize(
    ("credential", "required", "status"),
    [
        (Credential(), True, 200),
        (Credential(resource=["https://other.example/mcp", RESOURCE]), True, 200),
        (Credential(resource=[]), True, 401),
        (Credential(resource=None), True, 401),
        (Credential(resource=[]), False, 200),
        (Credential(resource=["https://example.com"]), False, 401),
        (Credential(resource=["https://example.com/mcp/"]), True, 401),
        (Credential(resource=["https://EXAMPLE.com/mcp"]), True, 401),
        (Credential(resource=["https://example.com/"]), True, 401),
        (Credential(resource=["https://example.com/MCP"]), True, 401),
        (Credential(resource=[f"{RESOURCE} https://other.example"]), True, 401),
        (Granted(["https://other.example/mcp", RESOURCE]), True, 200),
        (Granted(["https://other.example/mcp"]), False, 401),
        (Granted([]), True, 401),
        (Claims(aud=RESOURCE), True, 200),
        (Claims(aud=["other", RESOURCE]), True, 200),
        (Claims(aud="https://example.com"), True, 401),
        (Claims(aud=f"{RESOURCE} https://other.example"), True, 401),
        (Claims(), True, 401),
        (Claims(), False, 200),
        (Wrapped({"aud": RESOURCE}), True, 200),
        (Wrapped({}), True, 401),
        (object(), True, 200),
    ],
)
def test_credential_with_an_audience_must_be_for_this_resource(
    credential: Any, required: bool, status: int, settings: Any
) -> None:
    configure(settings, REQUIRE_AUDIENCE=required)
    client = client_with(credential)
    if status == 200:
        client.list_tools()
    else:
        assert refusal(client) == (401, {**WHERE, "error": "invalid_token"})
        assert ToolCallRecord.objects.get().error_code == "unauthenticated"


def test_audience_is_not_checked_without_a_resource(settings: Any) -> None:
    configure(settings, RESOURCE=None)
    client_with(Credential(resource=["https://other.example"])).list_tools()


def test_user_of_any_class_must_be_active(user: Any) -> None:
    client = client_with(Credential())
    client.list_tools()
    get_user_model().objects.update(is_active=False)
    assert refusal(client) == (401, {**WHERE, "error": "invalid_token"})


# Scopes.


@pytest.mark.requirement("auth.statuses", "auth.scope-challenge")
@pytest.mark.parametrize("revision", ERAS)
def test_missing_scopes_are_403_and_all_named(revision: str) -> None:
    client = client_with(Credential(scope="read write"), revision=revision)
    assert [tool["name"] for tool in client.list_tools()] == ["take"]
    status, parameters = refusal(client, "tools/call", name="take", arguments={"value": "no"})
    assert (status, parameters) == (
        403,
        {
            "realm": "mcp",
            "error": "insufficient_scope",
            "scope": "write delete",
            "resource_metadata": WHERE["resource_metadata"],
        },
    )
    message = client.response.json()["error"]["message"]
    assert message == (
        "Nothing was run: take requires the scopes write delete, and the credential lacks delete. "
        "The user can grant them by reconnecting."
    )
    assert ToolCallRecord.objects.get().error_code == "insufficient_scope"


def test_call_with_its_scopes_runs() -> None:
    client = client_with(Credential(scope="delete write"))
    assert not client.call_tool("take", {"value": 1})["isError"]


@pytest.mark.parametrize("name", ["scope", "scp", "scopes"])
@pytest.mark.parametrize("listed", [True, False])
def test_scopes_are_read_from_claims_too(name: str, listed: bool) -> None:
    granted = ["delete", "write"] if listed else "delete write"
    client = client_with(Claims({"aud": RESOURCE, name: granted}))
    assert not client.call_tool("take", {"value": 1})["isError"]
    client = client_with(Claims({"aud": RESOURCE, name: granted[: 1 if listed else 6]}))
    assert refusal(client, "tools/call", name="take", arguments={})[0] == 403


def test_claims_without_scopes_grant_none() -> None:
    client = client_with(Claims(aud=RESOURCE))
    assert refusal(client, "tools/call", name="take", arguments={"value": 1})[0] == 403


@dataclass
class Asked:
    """A credential of a site's own class, which computes the granted scopes."""

    granted: str

    def scopes(self) -> list[str]:
        return self.granted.split()


def test_scopes_are_read_from_a_method_too() -> None:
    assert not client_with(Asked("delete write")).call_tool("take", {"value": 1})["isError"]
    refused = refusal(client_with(Asked("write")), "tools/call", name="take", arguments={})
    assert refused[0] == 403


@pytest.mark.requirement("auth.hierarchy")
def test_scope_includes_others(settings: Any) -> None:
    scopes = {
        "read": "Read",
        "write": {"description": "Change", "includes": ["read"]},
        "all": {"description": "Everything", "includes": ["write", "delete", "all"]},
        "audit": {"description": "Nothing besides"},
    }
    configure(settings, SCOPES=scopes)
    assert not client_with(Credential(scope="all")).call_tool("take", {"value": 1})["isError"]
    for scope in ("write", "audit", "unknown"):
        client = client_with(Credential(scope=scope))
        assert refusal(client, "tools/call", name="take", arguments={"value": 1})[0] == 403


def test_credential_of_a_kind_without_scopes_needs_none(user: Any) -> None:
    assert not CheckedClient(user=user).call_tool("take", {"value": 1})["isError"]


def test_tool_is_hidden_if_no_server_grants_scopes(settings: Any) -> None:
    configure(settings, AUTHORIZATION_SERVERS=[])
    client = client_with(Credential())
    assert client.list_tools() == []
    with pytest.raises(MCPError, match="Unknown tool: take"):
        client.call_tool("take", {"value": 1})


@dataclass
class Fixed(Credential):
    """A credential like a token made by hand: it cannot gain scopes."""

    can_gain_scopes: bool = False


def test_tool_is_hidden_if_its_scopes_cannot_be_gained() -> None:
    assert client_with(Fixed()).list_tools() == []
    assert [tool["name"] for tool in client_with(Fixed(scope="write delete")).list_tools()]


def test_scope_is_described_by_admin_settings_or_name(settings: Any) -> None:
    scopes = {"read": "Read", "write": {"description": "Change", "includes": ["read"]}}
    configure(settings, SCOPES=scopes, DEFAULT_SCOPES=["plain"])
    Scope.objects.create(name="read", description="Look at articles")
    assert supported_scopes() == {
        "plain": "plain",
        "write": "Change",
        "delete": "delete",
        "read": "Look at articles",
    }
    assert {
        scope: [tool.name for tool in tools] for scope, tools in features_by_scope().items()
    } == {
        "write": ["take"],
        "delete": ["take"],
    }


def test_metadata_address_has_no_trailing_slash(settings: Any) -> None:
    configure(settings, RESOURCE="https://example.com/mcp/")
    assert refusal(CheckedClient())[1]["resource_metadata"] == WHERE["resource_metadata"]
    configure(settings, RESOURCE="https://example.com/")
    assert refusal(CheckedClient())[1]["resource_metadata"] == "https://example.com" + METADATA


def test_missing_scopes_in_batches_are_reported_to_the_model() -> None:
    client = client_with(Credential(), revision="2025-03-26")
    calls = [
        {**client.message("tools/call", name="take", arguments={"value": 1}), "id": each}
        for each in (1, 2)
    ]
    response = client.send(json.dumps(calls).encode())
    assert response.status_code == 200
    for reply in response.json():
        assert reply["result"]["isError"] is True
        assert "the credential lacks delete write" in text_of(reply["result"])


def test_administrator_adds_scopes_and_their_descriptions(settings: Any) -> None:
    serve(settings, taking(int), public=True)
    configure(settings, SCOPES={"read": "Read"}, ALLOW_ANONYMOUS=True)
    set_tool("take", scopes="read extra")
    Scope.objects.create(name="read", description="Look at articles")
    client = client_with(Credential())
    assert refusal(client, "tools/call", name="take", arguments={})[1]["scope"] == "read extra"
    assert refusal(CheckedClient(), "tools/list")[0] == 401
    assert MCPClient().http.get(METADATA).json()["scopes_supported"] == ["read", "extra"]


class Nowhere:
    """A router of a site on which the tables of the bridge are in no database."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "nowhere" if model._meta.app_label == "mcp_bridge" else None

    db_for_read = db_for_write


@pytest.fixture
def unknown_database() -> Iterator[None]:
    """Clear the cached answer to whether there is a database."""
    has_database.cache_clear()
    yield
    has_database.cache_clear()


def test_scopes_are_those_of_the_code_without_a_database(
    settings: Any, monkeypatch: pytest.MonkeyPatch, unknown_database: None
) -> None:
    Scope.objects.create(name="read", description="Look at articles")
    assert MCPClient().http.get(METADATA).json()["scopes_supported"] == ["write", "delete", "read"]
    dummy = {**connections.settings["default"], "ENGINE": "django.db.backends.dummy"}
    monkeypatch.setitem(connections.settings, "nowhere", dummy)
    settings.DATABASE_ROUTERS = [f"{__name__}.Nowhere"]
    has_database.cache_clear()
    assert MCPClient().http.get(METADATA).json()["scopes_supported"] == ["write", "delete"]


def test_metadata_for_another_host_is_refused_without_a_page(settings: Any) -> None:
    settings.MIDDLEWARE = []
    response = Client().get(METADATA, headers={"Host": "evil.example"})
    assert (response.status_code, response["Content-Type"]) == (400, "text/plain")
    assert b"<" not in response.content
