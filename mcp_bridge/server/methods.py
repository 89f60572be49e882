"""How a server module brings the MCP methods that it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from mcp_bridge.access.policy import AccessPolicy
from mcp_bridge.conf import conf
from mcp_bridge.features import Context
from mcp_bridge.protocol import JSONObject, Request, Result, Revision
from mcp_bridge.registry.registry import Snapshot

# Sends a JSON-RPC notification before the answer, where the transport has a stream.
Send: TypeAlias = Callable[[JSONObject], None]


@dataclass(slots=True)
class Endpoint:
    """
    What an endpoint serves; ``server_info`` is MCP's Implementation, in the active language.

    ``instructions`` are what a model should know about the tools as a whole, if there is anything.
    """

    snapshot: Snapshot
    policy: AccessPolicy
    server_info: JSONObject
    capabilities: JSONObject
    instructions: str | None


# How a method is answered, as a step of the coroutine that answers the request: before it blocks or
# queries the database it awaits ``concurrency.places.in_thread()``.
Method: TypeAlias = Callable[[Endpoint, Request, Context, Send], Awaitable[Result]]
# The methods that a server module brings, by their names in MCP.
Methods: TypeAlias = Mapping[str, Method]


def drop(notification: JSONObject) -> None:
    """Send nothing: the transport has no stream."""


def cacheable(revision: Revision) -> JSONObject:
    """Return the members of a modern result that may be kept (MCP 2026-07-28, "Caching")."""
    if not revision.modern:
        return {}
    # What is listed depends on the caller, so that nobody else may be shown it.
    ttl = int(conf.CACHE_TTL * 1000)
    return {"resultType": "complete", "ttlMs": ttl, "cacheScope": "private"}
