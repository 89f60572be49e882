"""A site that accepts the tokens of an external issuer, for its tests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_bridge import Context
from mcp_bridge.calls.credentials import audience_of, scopes_of
from mcp_bridge.ext.jwt import JWTAuthentication
from mcp_bridge.testing import MCPError
from mcp_bridge.testing.checked import CheckedClient

RESOURCE = "https://example.com/mcp"


class IssuerAuthentication(JWTAuthentication):
    """A custom class of the site; each test has its own issuer."""


class OtherAuthentication(JWTAuthentication):
    issuer = "https://other.example.com"


CLASS = f"{__name__}.IssuerAuthentication"
OTHER = f"{__name__}.OtherAuthentication"
TOKENS = "mcp_bridge.tokens.authentication.TokenAuthentication"


def whoami(context: Context) -> dict[str, Any]:
    """Say who calls, with what credential."""
    auth = context.auth
    return {
        "user": context.user.get_username(),
        "credential": repr(auth),
        "audience": sorted(audience_of(auth) or ()),
        "scopes": sorted(scopes_of(auth) or ()),
    }


def called(token: str) -> dict[str, Any]:
    """Return what a tool returns about the caller with a valid token."""
    result = CheckedClient(token=token).call_tool("whoami")
    found: dict[str, Any] = result["structuredContent"]
    return found


def refused(token: str, **headers: str) -> Any:
    """Return the response to a call with a token that is refused."""
    client = CheckedClient(token=token)
    client.headers.update(headers)
    with pytest.raises(MCPError):
        client.call_tool("whoami")
    return client.response


def status(token: str) -> int:
    """Return the status of the answer to a call with the token."""
    client = CheckedClient(token=token)
    message = client.message("tools/call", name="whoami", arguments={})
    response = client.send(json.dumps(message).encode(), client.mirrored(message))
    found: int = response.status_code
    return found
