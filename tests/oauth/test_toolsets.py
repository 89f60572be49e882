"""Each toolset is a separate resource, below that of the endpoint."""

from __future__ import annotations

import re
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest
from django.contrib.auth.views import LoginView
from django.test import Client
from django.urls import include, path
from oauth2_provider.models import AccessToken

from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.urls import endpoint, metadata
from mcp_bridge.views import AsyncMCPView, MCPView
from tests.oauth.clients import RESOURCE, OAuthClient, answered
from tests.oauth.conftest import MCP_BRIDGE
from tests.oauth.tools import server

EDITING = f"{RESOURCE}/editing"
METADATA = "https://testserver/.well-known/oauth-protected-resource/mcp"


@pytest.fixture(autouse=True, params=[MCPView, AsyncMCPView])
def site(request: pytest.FixtureRequest, settings: Any) -> None:
    settings.MCP_BRIDGE = {**MCP_BRIDGE, "TOOLSETS": {"editing": ["*"], "reading": ["*"]}}
    served = ModuleType("served")
    others = [path("rpc", server.view), path("", include("mcp_bridge.oauth.urls"))]
    login = path("login/", LoginView.as_view(template_name="admin/login.html"), name="login")
    vars(served)["urlpatterns"] = [login, *others, *endpoint(request.param), *metadata]
    settings.ROOT_URLCONF = served


def status(token: str, address: str, **headers: str) -> int:
    client = MCPClient(token=token, path=address)
    client.headers.update(headers)
    with suppress(MCPError):
        client.list_tools()
    return int(client.response.status_code)


def test_toolset_challenge_leads_to_its_own_metadata() -> None:
    for address, resource in (("/mcp", RESOURCE), ("/mcp/editing", EDITING)):
        client = MCPClient(path=address)
        with pytest.raises(MCPError):
            client.list_tools()
        (found,) = re.findall(
            r'resource_metadata="([^"]*)"', client.response.headers["WWW-Authenticate"]
        )
        assert found == METADATA + address.removeprefix("/mcp")
        assert Client().get(found.removeprefix("https://testserver")).json()["resource"] == resource


def test_unknown_toolset_has_no_metadata() -> None:
    for name in ("edit", "editing/more"):
        assert Client().get(f"/.well-known/oauth-protected-resource/mcp/{name}").status_code == 404
    known = "/.well-known/oauth-authorization-server/mcp/editing"
    assert Client().get(known).json()["issuer"] == "https://testserver"


def test_token_for_the_endpoint_opens_every_toolset(user: Any) -> None:
    token = OAuthClient(user).log_in()["access_token"]
    assert status(token, "/mcp") == status(token, "/mcp/editing") == 200
    assert status(token, "/mcp", **{"X-MCP-Toolset": "reading"}) == 200


def test_toolset_token_opens_only_that_toolset(user: Any) -> None:
    token = OAuthClient(user).log_in(resource=EDITING)["access_token"]
    assert AccessToken.objects.get().resource == [EDITING]
    assert status(token, "/mcp/editing") == status(token, "/mcp/editing/") == 200
    assert status(token, "/mcp") == status(token, "/mcp/reading") == 401
    assert status(token, "/mcp", **{"X-MCP-Toolset": "editing"}) == 401


def test_token_for_an_unknown_toolset_is_refused(user: Any) -> None:
    answer = answered(OAuthClient(user).ask(resource=f"{RESOURCE}/edit"))
    assert answer["error"] == "invalid_target"
    assert EDITING in answer["error_description"]
