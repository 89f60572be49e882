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
    """An issuer whose tokens the site accepts."""
    issuer = Issuer()
    # An earlier test may have had an unreachable issuer at the same port.
    jwks.keys_of.cache_clear()
    # A busy machine answers slowly; tests of slow issuers set their own limit.
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
