"""Documents of clients (CIMD) that follow all rules but are not fetched from the internet."""

from __future__ import annotations

from typing import Any

from oauth2_provider.cimd import CIMDError, SafeMetadataFetcher

from mcp_bridge.oauth.registration import MetadataFetcher
from tests.clients.logins import CLAUDE_CODE

DOCUMENTS = {
    CLAUDE_CODE: {
        "client_id": CLAUDE_CODE,
        "client_name": "Claude Code",
        "client_uri": "https://claude.ai",
        # Without a port, because each login has another one.
        "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
}


class _Internet(SafeMetadataFetcher):
    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        if client_id not in DOCUMENTS:
            raise CIMDError(f"{client_id} is not there.")
        return DOCUMENTS[client_id], 300


class Documents(MetadataFetcher, _Internet):
    """The package's fetcher, in front of an internet that has DOCUMENTS and nothing else."""
