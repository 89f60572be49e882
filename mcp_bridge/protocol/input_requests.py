"""
Requests that a server sends to a client before it returns a result, and their responses.

Names follow the MCP schema; see MCP 2026-07-28, "Multi round-trip requests".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from mcp_bridge.protocol.errors import InvalidParamsError
from mcp_bridge.protocol.jsonrpc import JSONObject, JSONSchema, encode
from mcp_bridge.protocol.revisions import Revision
from mcp_bridge.protocol.text import quoted


@dataclass(frozen=True, slots=True)
class InputRequest:
    """A request to the client, which must declare ``capability``, such as "elicitation.url"."""

    method: ClassVar[str]
    capability: ClassVar[str]

    def params(self) -> dict[str, object]:
        """Return the members of the request's params."""
        return {}

    def is_declared(self, capabilities: JSONObject) -> bool:
        """Return whether a client with these capabilities may be sent the request."""
        name, _, mode = self.capability.partition(".")
        modes = capabilities.get(name)
        return isinstance(modes, Mapping) and (not mode or mode in modes)


@dataclass(frozen=True, slots=True)
class FormElicitRequest(InputRequest):
    """A form for the client's user; ``schema`` is a flat JSON Schema. Never ask for secrets."""

    method: ClassVar[str] = "elicitation/create"
    capability: ClassVar[str] = "elicitation"
    message: str
    schema: JSONSchema

    def params(self) -> dict[str, object]:
        return {"mode": "form", "message": self.message, "requestedSchema": dict(self.schema)}

    def is_declared(self, capabilities: JSONObject) -> bool:
        # An empty object means forms, as before other modes were added.
        modes = capabilities.get("elicitation")
        return isinstance(modes, Mapping) and ("form" in modes or "url" not in modes)


@dataclass(frozen=True, slots=True)
class URLElicitRequest(InputRequest):
    """
    A URL for the client's user to visit, for data that must not pass through the client.

    Raises ValueError for a URL that a browser cannot visit.
    """

    method: ClassVar[str] = "elicitation/create"
    capability: ClassVar[str] = "elicitation.url"
    message: str
    url: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the URL must be http or https, not {quoted(self.url)}")

    def params(self) -> dict[str, object]:
        return {"mode": "url", "message": self.message, "url": self.url}


@dataclass(frozen=True, slots=True)
class CreateMessageRequest(InputRequest):
    """A message for the client's model to write (MCP, "Sampling"); ``options`` extends params."""

    method: ClassVar[str] = "sampling/createMessage"
    messages: Sequence[JSONObject]
    max_tokens: int
    options: JSONObject = field(default_factory=dict)

    @property
    def capability(self) -> str:  # type: ignore[override]
        return "sampling.tools" if {"tools", "toolChoice"} & self.options.keys() else "sampling"

    def params(self) -> dict[str, object]:
        return {**self.options, "messages": list(self.messages), "maxTokens": self.max_tokens}


@dataclass(frozen=True, slots=True)
class ListRootsRequest(InputRequest):
    """A request for the client's working directories (MCP, "Roots")."""

    method: ClassVar[str] = "roots/list"
    capability: ClassVar[str] = "roots"


@dataclass(frozen=True, slots=True)
class InputRequiredResult:
    """Requests to the client, by key, in place of a result; its answers return ``state``."""

    requests: Mapping[str, InputRequest]
    state: str
    is_error: ClassVar[bool] = False

    def to_json(self, revision: Revision, server_meta: bytes = b"{}") -> bytes:
        """Return it as JSON text. Raises ValueError or TypeError for values that are not JSON."""
        members = {
            "resultType": "input_required",
            "inputRequests": {
                key: {"method": each.method, "params": each.params()}
                for key, each in self.requests.items()
            },
            "requestState": self.state,
        }
        return encode(members)[:-1] + b',"_meta":' + server_meta + b"}"


@dataclass(frozen=True, slots=True)
class Answers:
    """The state and the responses by key that a client sends after an InputRequiredResult."""

    state: str
    responses: JSONObject


def read_answers(params: JSONObject) -> Answers | None:
    """Return the answers in a request's params, or None. Raises InvalidParamsError."""
    state, responses = params.get("requestState"), params.get("inputResponses", {})
    if state is not None and not isinstance(state, str):
        raise InvalidParamsError("Invalid params: requestState must be a string.")
    if not isinstance(responses, dict):
        raise InvalidParamsError("Invalid params: inputResponses must be an object.")
    return None if state is None else Answers(state, responses)


def check_response(key: str, method: str, response: object) -> None:
    """Raise InvalidParamsError unless the response at ``key`` fits a request of the method."""
    place = f"Invalid params: inputResponses[{quoted(key)}]"
    if not isinstance(response, dict):
        raise InvalidParamsError(f"{place} must be an object.")
    if method == FormElicitRequest.method:
        if response.get("action") not in ("accept", "decline", "cancel"):
            raise InvalidParamsError(f"{place}.action must be accept, decline or cancel.")
        if not isinstance(response.get("content", {}), dict):
            raise InvalidParamsError(f"{place}.content must be an object.")
    elif method == CreateMessageRequest.method:
        if not isinstance(response.get("content"), dict | list):
            raise InvalidParamsError(f"{place}.content must be an object or an array.")
        if not all(isinstance(response.get(name), str) for name in ("role", "model")):
            raise InvalidParamsError(f"{place}.role and .model must be strings.")
    else:
        roots = response.get("roots")
        known = isinstance(roots, list) and all(isinstance(each, dict) for each in roots)
        if not known or not all(isinstance(each.get("uri"), str) for each in roots or ()):
            raise InvalidParamsError(f"{place}.roots must be an array of roots, each with a uri.")
