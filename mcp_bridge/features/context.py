"""The context of a request: its caller, client and origin."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from copy import copy
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, NamedTuple
from urllib.parse import urljoin

from mcp_bridge.protocol import LATEST, errors
from mcp_bridge.protocol.jsonrpc import JSONObject
from mcp_bridge.protocol.revisions import Revision


class Client(NamedTuple):
    """
    The self-description that a modern client sends in each request. Never trust it.

    ``info`` is MCP's Implementation, ``capabilities`` its ClientCapabilities.
    """

    info: JSONObject = {}
    capabilities: JSONObject = {}


@dataclass(frozen=True, kw_only=True)
class Context:
    """
    The caller and circumstances of one request.

    ``user`` is the authenticated user, or Django's AnonymousUser; ``auth`` the credential, as in
    DRF's ``request.auth``; ``request`` the HttpRequest, or None for a call by another transport.
    ``remote_address`` is the peer's address, ``language`` the active language ("en-gb"), looked up
    on first access. ``scratch`` is a cache for the duration of the request; after a call that was
    refused or failed, its "error_code" is that of the record, and a tool may set its "upstream" to
    the other server that the call reached and the class of its HTTP status. ``input_responses``
    are the client's answers to the tool's input requests, by key; ``tool_state`` is the state that
    the tool stored with them.
    """

    user: Any
    request: Any = None
    revision: Revision = LATEST
    auth: Any = None
    client: Client = Client()
    remote_address: str = ""
    user_agent: str = ""
    # A factory leaves no class attribute, so that __getattr__ can look the language up lazily.
    language: str = field(default_factory=str)
    scratch: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)
    input_responses: Mapping[str, Any] = field(default_factory=dict)
    tool_state: Any = None
    # The absolute URL of the root of the site, for a call without its request.
    base_url: str = ""
    # Sends notifications before the response (transports.streams.Stream), if it may be streamed.
    stream: Any = field(default=None, compare=False, repr=False)
    # The call while its tool runs (calls.running.Running).
    _running: Any = field(default=None, init=False, compare=False, repr=False)

    def of_inner_call(self) -> Context:
        """Return the context for a call within this one, which does not report its progress."""
        inner = copy(self)
        vars(inner).update(stream=None, _running=None)
        return inner

    @property
    def cancelled(self) -> bool:
        """Whether the client is gone, the task over, or the time limit of the call has passed."""
        return self._running is not None and self._running.is_over

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """
        Report how much of the call is done, to a client that asked for it (MCP, "Progress").

        ``done`` and ``total`` are in any unit; ``message`` is for people. Each report must exceed
        the one before; at most 10 a second are sent, and the last one in any case. In a task, the
        report becomes its message. Raises Cancelled if the client has disconnected or the task is
        over, and TimedOut after the time limit: call it often in a function that takes long.
        """
        if self._running is not None:
            self._running.report(done, total, message)

    def sleep(self, seconds: float) -> None:
        """
        Wait, in a function that is not a coroutine, and look each second whether the call is over.

        Raises Cancelled and TimedOut as ``progress`` does.
        """
        ends = monotonic() + seconds
        while (left := ends - monotonic()) > 0:
            if self._running is not None:
                self._running.check()
            sleep(min(left, 1))

    def __getattr__(self, name: str) -> Any:
        read = vars(self).get("_read_language") if name == "language" else None
        if read is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        vars(self)["language"] = language = read()
        return language

    def absolute_url(self, path: str) -> str:
        """Return the absolute URL of a path of this site; the path itself without a known host."""
        if self.request is None:
            return urljoin(self.base_url, path)
        return str(self.request.build_absolute_uri(path))

    def require_capability(self, name: str) -> None:
        """
        Stop the call unless the client has declared the capability ``name``.

        Raises MissingRequiredClientCapabilityError (MCP, "Capabilities", error -32021).
        """
        if name not in self.client.capabilities:
            raise self.missing_capabilities(name)

    def missing_capabilities(self, *names: str) -> errors.MissingRequiredClientCapabilityError:
        """Return the error for a client that did not, or cannot, declare these capabilities."""
        legacy = None if self.revision.modern else self.revision.version
        asked = self.stream is not None and self.stream.ask is not None
        return errors.MissingRequiredClientCapabilityError(*names, legacy=legacy, asked=asked)
