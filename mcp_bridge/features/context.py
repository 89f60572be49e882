"""Who calls, how, and from where."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mcp_bridge.protocol import LATEST, errors
from mcp_bridge.protocol.jsonrpc import JSONObject
from mcp_bridge.protocol.revisions import Revision


class Client(NamedTuple):
    """
    What a modern client says of itself in each request: never a ground to trust it.

    ``info`` is MCP's Implementation, ``capabilities`` its ClientCapabilities.
    """

    info: JSONObject = {}
    capabilities: JSONObject = {}


@dataclass(frozen=True, kw_only=True)
class Context:
    """
    Who calls, and how: one for each request.

    ``user`` is the authenticated user, or Django's AnonymousUser; ``auth`` the credential, as in
    DRF's ``request.auth``; ``request`` the HttpRequest, or None where the call came another way.
    ``remote_address`` is where the connection came from and ``language`` the active one ("en-gb"),
    looked up when it is first read. ``scratch`` is free for what one request wants to remember.
    ``input_responses`` are the client's answers to what the tool has asked, by key, and
    ``tool_state`` what it kept when it asked last.
    """

    user: Any
    request: Any = None
    revision: Revision = LATEST
    auth: Any = None
    client: Client = Client()
    remote_address: str = ""
    user_agent: str = ""
    # By a factory, so that the class has no value for a context that reads it later.
    language: str = field(default_factory=str)
    scratch: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)
    input_responses: Mapping[str, Any] = field(default_factory=dict)
    tool_state: Any = None

    def __getattr__(self, name: str) -> Any:
        read = vars(self).get("_read_language") if name == "language" else None
        if read is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        vars(self)["language"] = language = read()
        return language

    def absolute_url(self, path: str) -> str:
        """Return a path of this site as an address, or as it is where there is no request."""
        return path if self.request is None else str(self.request.build_absolute_uri(path))

    def require_capability(self, name: str) -> None:
        """
        Stop the call unless the client has declared the capability ``name``.

        Raises MissingRequiredClientCapabilityError (MCP, "Capabilities", error -32021).
        """
        if name not in self.client.capabilities:
            raise self.missing_capabilities(name)

    def missing_capabilities(self, *names: str) -> errors.MissingRequiredClientCapabilityError:
        """Return the error for a client that has not, or cannot have, declared capabilities."""
        legacy = None if self.revision.modern else self.revision.version
        return errors.MissingRequiredClientCapabilityError(*names, legacy=legacy)
