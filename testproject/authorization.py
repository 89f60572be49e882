"""The newsroom as its own authorization server (OAuth): clients need its address and no more."""

from __future__ import annotations

from typing import Any

from mcp_bridge import oauth

SCOPES = {
    "news:read": "Read articles, comments, pictures and statistics",
    "news:write": {
        "description": "Write, publish and delete articles, comments and pictures",
        "includes": ["news:read"],
    },
}


def authorization(site: str, bridge: dict[str, Any]) -> dict[str, Any]:
    """
    Return the settings with which clients can log in to a newsroom that is served at ``site``.

    ``bridge`` is its MCP_BRIDGE without. Tokens of mcp_bridge.tokens are still taken.
    """
    resource = f"{site}/mcp"
    return {
        "MCP_BRIDGE": {
            **bridge,
            "RESOURCE": resource,
            "AUTHORIZATION_SERVERS": [site],
            "SCOPES": SCOPES,
            "DEFAULT_SCOPES": ["news:read"],
            "AUTHENTICATION_CLASSES": [
                "mcp_bridge.tokens.authentication.TokenAuthentication",
                "mcp_bridge.oauth.authentication.TokenAuthentication",
            ],
        },
        "OAUTH2_PROVIDER": oauth.settings(issuer=site, resource=resource),
        "ROOT_URLCONF": "testproject.authorization_urls",
        "LOGIN_URL": "login",
    }
