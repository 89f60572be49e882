"""Who calls, and how."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge.protocol import MissingRequiredClientCapabilityError
from mcp_bridge.protocol.revisions import Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """
    Who calls, and how: one for each request.

    ``user`` is the authenticated user, or Django's AnonymousUser; ``auth`` the credential, as in
    DRF's ``request.auth``; ``request`` the HttpRequest. ``revision`` is the MCP revision that is
    spoken. ``client_info`` and ``client_capabilities`` are what a modern client says of itself:
    never a ground to trust it. ``scratch`` is free for what one request wants to remember.
    ``input_responses`` are the client's answers to what the tool has asked, by key, and
    ``tool_state`` what the tool kept when it asked last (see InputRequired).
    """

    user: Any
    request: Any
    revision: Revision
    auth: Any = None
    client_info: Mapping[str, Any] = field(default_factory=dict)
    client_capabilities: Mapping[str, Any] = field(default_factory=dict)
    scratch: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)
    input_responses: Mapping[str, Any] = field(default_factory=dict)
    tool_state: Any = None

    def require_capability(self, name: str) -> None:
        """
        Stop the call unless the client has declared the capability ``name``.

        Raises MissingRequiredClientCapabilityError (MCP, "Capabilities", error -32021).
        """
        if name not in self.client_capabilities:
            raise self.lacking(name)

    def lacking(self, *names: str) -> MissingRequiredClientCapabilityError:
        """The error for a client that has not, or with its revision cannot have, declared these."""
        legacy = None if self.revision.modern else self.revision.version
        return MissingRequiredClientCapabilityError(*names, legacy=legacy)
