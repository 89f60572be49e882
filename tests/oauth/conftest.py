from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.test.utils import override_settings

from mcp_bridge import oauth

ISSUER = "https://testserver"
RESOURCE = "https://testserver/mcp"
MCP_BRIDGE = {
    "RESOURCE": RESOURCE,
    "AUTHORIZATION_SERVERS": [ISSUER],
    "SCOPES": {"mcp": "Use the tools of this site", "mcp:write": "Change what is on this site"},
    "DEFAULT_SCOPES": ["mcp"],
    "AUTHENTICATION_CLASSES": ["mcp_bridge.oauth.authentication.TokenAuthentication"],
}
OAUTH2_PROVIDER = oauth.settings(issuer=ISSUER, resource=RESOURCE)


@pytest.fixture(autouse=True, scope="module")
def oauth_site(test_site: None) -> Iterator[None]:
    """The site of this folder, served for a whole module."""
    with override_settings(
        ROOT_URLCONF="tests.oauth.site",
        MCP_BRIDGE=MCP_BRIDGE,
        OAUTH2_PROVIDER=OAUTH2_PROVIDER,
        LOGIN_URL="login",
    ):
        yield


@pytest.fixture(autouse=True)
def _no_counts() -> None:
    """A cleared cache: registrations are counted by address, the same one in all tests."""
    cache.clear()
