from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcp_bridge.ext.jwt import keys as jwks
from mcp_bridge.testing.serving import serve
from tests.ext.jwt.site import CLASS, RESOURCE, IssuerAuthentication, whoami
from tests.support.issuer import Issuer


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch, settings: Any, user: Any) -> Iterator[Issuer]:
    """An issuer whose tokens the site takes."""
    issuer = Issuer()
    # An issuer of an earlier test may have had the same port, and have been away.
    jwks.keys_of.cache_clear()
    # A busy machine takes long to answer; a test of slow issuers says how long is too long.
    monkeypatch.setattr(jwks, "DEADLINE", 60.0)
    monkeypatch.setattr(IssuerAuthentication, "issuer", issuer.url)
    settings.MCP_BRIDGE = {
        "AUTHENTICATION_CLASSES": [CLASS],
        "AUTHORIZATION_SERVERS": [issuer.url],
        "RESOURCE": RESOURCE,
    }
    serve(settings, whoami, read_only=True)
    yield issuer
    if issuer.is_running:
        issuer.stop()
