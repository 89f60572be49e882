"""How a client and the server meet: ``initialize`` and ``ping``, or ``server/discover``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mcp_bridge.conf import conf
from mcp_bridge.features import Context
from mcp_bridge.protocol import (
    SUPPORTED_VERSIONS,
    InvalidParamsError,
    JSONObject,
    Request,
    Revision,
)
from mcp_bridge.protocol.revisions import negotiate
from mcp_bridge.server.methods import Endpoint, Method, Methods, Send


def initialize(endpoint: Endpoint, request: Request, context: Context, send: Send) -> JSONObject:
    """Answer the legacy handshake (MCP 2025-11-25, "Lifecycle"); no session begins with it."""
    requested = request.params.get("protocolVersion")
    if not isinstance(requested, str):
        raise InvalidParamsError("Invalid params: protocolVersion must be a string.")
    for name in ("capabilities", "clientInfo"):
        if not isinstance(request.params.get(name, {}), Mapping):
            raise InvalidParamsError(f"Invalid params: {name} must be an object.")
    return {
        "protocolVersion": negotiate(requested).version,
        "capabilities": endpoint.capabilities,
        "serverInfo": endpoint.server_info,
        **_instructions(),
    }


def discover(endpoint: Endpoint, request: Request, context: Context, send: Send) -> JSONObject:
    """Say which revisions and capabilities there are (MCP 2026-07-28, "Discovery")."""
    return {
        "supportedVersions": SUPPORTED_VERSIONS,
        "capabilities": endpoint.capabilities,
        **_instructions(),
        **cacheable(request.revision),
    }


def ping(endpoint: Endpoint, request: Request, context: Context, send: Send) -> JSONObject:
    """Answer that the server is there (MCP 2025-11-25, "Ping")."""
    return {}


CAPABILITIES: Final[JSONObject] = {}
METHODS: Final[Methods] = {
    "initialize": Method(initialize),
    "ping": Method(ping),
    "server/discover": Method(discover),
}


def cacheable(revision: Revision) -> JSONObject:
    """Return the members of a modern result that may be kept (MCP 2026-07-28, "Caching")."""
    if not revision.modern:
        return {}
    # What is listed depends on the caller, so that nobody else may be shown it.
    ttl = int(conf.CACHE_TTL * 1000)
    return {"resultType": "complete", "ttlMs": ttl, "cacheScope": "private"}


def _instructions() -> JSONObject:
    return {} if conf.INSTRUCTIONS is None else {"instructions": str(conf.INSTRUCTIONS)}
