"""How a server module brings the MCP methods that it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from mcp_bridge.access.policy import AccessPolicy
from mcp_bridge.features import Context
from mcp_bridge.protocol import JSONObject, Request, Result
from mcp_bridge.registry.registry import Snapshot

# Sends a JSON-RPC notification before the answer, where the transport has a stream.
Send: TypeAlias = Callable[[JSONObject], None]


@dataclass(slots=True)
class Endpoint:
    """
    What an endpoint serves: the tools of a snapshot, under a policy.

    ``server_info`` is MCP's Implementation of this server, in the active language;
    ``capabilities`` are its ServerCapabilities.
    """

    snapshot: Snapshot
    policy: AccessPolicy
    server_info: JSONObject
    capabilities: JSONObject


@dataclass(frozen=True, slots=True)
class Method:
    """
    How one MCP method is answered; both functions return the result, or raise ProtocolError.

    ``handle`` runs in a thread under ASGI, unless ``ahandle`` is there to take its place, for a
    method that has something to await.
    """

    handle: Callable[[Endpoint, Request, Context, Send], Result]
    ahandle: Callable[[Endpoint, Request, Context, Send], Awaitable[Result]] | None = None


# The methods that a server module brings, by their names in MCP.
Methods: TypeAlias = Mapping[str, Method]


def drop(notification: JSONObject) -> None:
    """Send nothing: the transport has no stream."""
