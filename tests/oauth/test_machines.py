"""Run the recipe for programs without a user in docs/access/oauth-clients.md."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
from django.urls import include, path
from mcp import MCPError as SDKError
from mcp.client.auth import OAuthTokenError
from oauth2_provider.models import AccessToken

from mcp_bridge import oauth
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.records.rows import flush
from mcp_bridge.testing.serving import route
from tests.oauth.conftest import MCP_BRIDGE
from tests.oauth.tools import server
from tests.test_docs import BLOCK, ROOT

RECIPE = {
    block["name"]: block["code"]
    for block in BLOCK.finditer((ROOT / "docs" / "access" / "oauth-clients.md").read_text())
}["nightly.py"]
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@pytest.fixture(autouse=True)
def site(transactional_db: None, live_server: Any, settings: Any) -> Any:
    """The site of this folder on a live server."""
    resource = f"{live_server.url}/mcp"
    settings.MCP_BRIDGE = MCP_BRIDGE | {
        "RESOURCE": resource,
        "AUTHORIZATION_SERVERS": [live_server.url],
    }
    settings.OAUTH2_PROVIDER = oauth.settings(issuer=live_server.url, resource=resource)
    route(settings, path("rpc", server.view), path("", include("mcp_bridge.oauth.urls")))
    yield
    ToolCallRecord.objects.all().delete()


@pytest.fixture
def nightly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The service user, whose application is made by the command of the recipe."""
    user = get_user_model().objects.create_user("nightly")
    application = [
        "confidential",
        "client-credentials",
        "--client-id",
        "nightly",
        "--user",
        user.pk,
    ]
    call_command("createapplication", *map(str, application))
    (secret,) = re.findall(r"client_secret: (\w+)", capsys.readouterr().out)
    monkeypatch.setenv("NIGHTLY_SECRET", secret)
    return user


def run(live_server: Any) -> None:
    exec(RECIPE.replace("https://example.com", live_server.url), {})


def test_program_acts_as_its_service_user(
    nightly: Any, live_server: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run(live_server)
    assert "text='nightly'" in capsys.readouterr().out
    token = AccessToken.objects.get()
    assert (token.scope, token.resource) == ("mcp", [f"{live_server.url}/mcp"])
    flush()
    record = ToolCallRecord.objects.get(tool="whoami")
    assert (record.user_name, record.outcome) == ("nightly", "succeeded")


def test_program_with_a_wrong_secret_is_refused(
    nightly: Any, live_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIGHTLY_SECRET", "wrong")
    with pytest.RaisesGroup(OAuthTokenError, flatten_subgroups=True):
        run(live_server)
    assert not AccessToken.objects.exists()


def test_program_of_an_inactive_service_user_is_refused(nightly: Any, live_server: Any) -> None:
    nightly.is_active = False
    nightly.save()
    refused = pytest.RaisesExc(SDKError, match="The credential is not valid")
    with pytest.RaisesGroup(refused, flatten_subgroups=True):
        run(live_server)
    assert not ToolCallRecord.objects.filter(tool="whoami").exists()


def test_identity_assertion_grant_is_not_supported(live_server: Any) -> None:
    body = {"grant_type": JWT_BEARER, "assertion": "e30.e30.", "client_id": "any"}
    answer = Client().post("/oauth/token/", body)
    assert (answer.status_code, answer.json()["error"]) == (400, "unsupported_grant_type")
    metadata = Client().get("/.well-known/oauth-authorization-server").json()
    assert JWT_BEARER not in metadata["grant_types_supported"]
