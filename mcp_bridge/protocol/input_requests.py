"""
What a server may ask of a client before it gives a result, and what the client answers.

Names are those of the MCP schema. See MCP 2026-07-28, "Multi round-trip requests",
``InputRequiredResult``: a client is asked only for what it has declared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from mcp_bridge.protocol.errors import InvalidParamsError
from mcp_bridge.protocol.jsonrpc import JSONObject, encode
from mcp_bridge.protocol.revisions import Revision
from mcp_bridge.protocol.text import quoted

ACTIONS: Final = ("accept", "decline", "cancel")


@dataclass(frozen=True, slots=True)
class InputRequest:
    """One thing asked; ``capability`` is what a client must have declared, with dots inwards."""

    method: ClassVar[str]
    capability: ClassVar[str]

    def params(self) -> dict[str, Any]:
        """The members of the request's params."""
        raise NotImplementedError

    def is_declared(self, capabilities: Mapping[str, Any]) -> bool:
        """Whether a client with these capabilities may be asked."""
        return isinstance(capabilities.get(self.capability), Mapping)

    def definition(self) -> dict[str, Any]:
        """The request as it is sent."""
        return {"method": self.method, "params": self.params()}


@dataclass(frozen=True, slots=True)
class FormElicitRequest(InputRequest):
    """A form for the client's user; ``schema`` is a flat JSON Schema. Never ask for secrets."""

    method: ClassVar[str] = "elicitation/create"
    capability: ClassVar[str] = "elicitation"
    message: str
    schema: Mapping[str, Any]

    def params(self) -> dict[str, Any]:
        return {"mode": "form", "message": self.message, "requestedSchema": dict(self.schema)}

    def is_declared(self, capabilities: Mapping[str, Any]) -> bool:
        # An empty object means forms, as it did before there were other modes.
        modes = capabilities.get("elicitation")
        return isinstance(modes, Mapping) and ("form" in modes or "url" not in modes)


@dataclass(frozen=True, slots=True)
class URLElicitRequest(InputRequest):
    """An address for the client's user to visit, for what must not pass through the client."""

    method: ClassVar[str] = "elicitation/create"
    capability: ClassVar[str] = "elicitation.url"
    message: str
    url: str

    def params(self) -> dict[str, Any]:
        return {"mode": "url", "message": self.message, "url": self.url}

    def is_declared(self, capabilities: Mapping[str, Any]) -> bool:
        modes = capabilities.get("elicitation")
        return isinstance(modes, Mapping) and "url" in modes


@dataclass(frozen=True, slots=True)
class CreateMessageRequest(InputRequest):
    """
    A message that the client's model writes (MCP, "Sampling").

    ``messages`` are MCP's SamplingMessages; ``options`` joins the params as it is.
    """

    method: ClassVar[str] = "sampling/createMessage"
    capability: ClassVar[str] = "sampling"
    messages: Sequence[Mapping[str, Any]]
    max_tokens: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def params(self) -> dict[str, Any]:
        return {**self.options, "messages": list(self.messages), "maxTokens": self.max_tokens}


@dataclass(frozen=True, slots=True)
class ListRootsRequest(InputRequest):
    """The directories that the client works in (MCP, "Roots")."""

    method: ClassVar[str] = "roots/list"
    capability: ClassVar[str] = "roots"

    def params(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, slots=True)
class InputRequiredResult:
    """
    A result that asks the client before there is another (MCP schema, ``InputRequiredResult``).

    ``requests`` are by key; ``state`` is what the client sends back with its answers.
    """

    requests: Mapping[str, InputRequest]
    state: str

    def to_json(self, revision: Revision, server_meta: bytes = b"{}") -> bytes:
        """Return it as JSON text. Raises ValueError or TypeError for what JSON cannot hold."""
        members = {
            "resultType": "input_required",
            "inputRequests": {key: each.definition() for key, each in self.requests.items()},
            "requestState": self.state,
        }
        return encode(members)[:-1] + b',"_meta":' + server_meta + b"}"


@dataclass(frozen=True, slots=True)
class Answers:
    """What a client sends after an InputRequiredResult: its state, and the responses by key."""

    state: str
    responses: JSONObject


def read_answers(params: JSONObject) -> Answers | None:
    """
    Return the ``requestState`` and ``inputResponses`` of a request's params, or None without.

    Raises InvalidParamsError where they are not what MCP says they are.
    """
    state, responses = params.get("requestState"), params.get("inputResponses", {})
    if state is not None and not isinstance(state, str):
        raise InvalidParamsError("Invalid params: requestState must be a string.")
    if not isinstance(responses, dict):
        raise InvalidParamsError("Invalid params: inputResponses must be an object.")
    return None if state is None else Answers(state, responses)


def check_response(key: str, method: str, response: Any) -> None:
    """Raise InvalidParamsError unless the response is one to a request of that method."""
    place = f"Invalid params: inputResponses[{quoted(key)}]"
    if not isinstance(response, dict):
        raise InvalidParamsError(f"{place} must be an object.")
    if method == FormElicitRequest.method:
        if response.get("action") not in ACTIONS:
            raise InvalidParamsError(f"{place}.action must be {', '.join(ACTIONS)}.")
        if not isinstance(response.get("content", {}), dict):
            raise InvalidParamsError(f"{place}.content must be an object.")
    elif method == CreateMessageRequest.method:
        if not isinstance(response.get("content"), dict | list):
            raise InvalidParamsError(f"{place}.content must be an object or an array.")
        if not all(isinstance(response.get(name), str) for name in ("role", "model")):
            raise InvalidParamsError(f"{place}.role and .model must be strings.")
    elif method == ListRootsRequest.method:
        roots = response.get("roots")
        known = isinstance(roots, list) and all(isinstance(each, dict) for each in roots)
        if not known or not all(isinstance(each.get("uri"), str) for each in roots or ()):
            raise InvalidParamsError(f"{place}.roots must be an array of roots, each with a uri.")
