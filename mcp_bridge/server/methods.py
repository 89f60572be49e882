"""The interface between server modules and the MCP methods that they implement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from mcp_bridge.access.policy import AccessPolicy
from mcp_bridge.conf import conf
from mcp_bridge.features import Context
from mcp_bridge.protocol import JSONObject, Request, Result, Revision
from mcp_bridge.registry.registry import Snapshot


@dataclass(slots=True)
class Endpoint:
    """
    Data that an endpoint serves; ``server_info`` is MCP's Implementation, in the active language.

    ``instructions`` describe the tools as a whole to the model, or are None.
    """

    snapshot: Snapshot
    policy: AccessPolicy
    server_info: JSONObject
    instructions: str | None


# Answers one method, as part of the request's coroutine; awaits ``places.in_thread()`` before it
# blocks or queries the database.
Method: TypeAlias = Callable[[Endpoint, Request, Context], Awaitable[Result]]
# The methods of a server module, by their names in MCP.
Methods: TypeAlias = Mapping[str, Method]


def cacheable(revision: Revision) -> JSONObject:
    """Return the caching members of a modern result (MCP 2026-07-28, "Caching")."""
    if not revision.modern:
        return {}
    # Lists depend on the caller, so shared caches must not store them.
    ttl = int(conf.CACHE_TTL * 1000)
    return {"resultType": "complete", "ttlMs": ttl, "cacheScope": "private"}
