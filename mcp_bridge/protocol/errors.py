"""The errors of JSON-RPC 2.0 (section 5.1) and MCP 2026-07-28 ("Base protocol", "Error codes")."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import ClassVar, TypeAlias

from mcp_bridge.protocol.revisions import SUPPORTED_VERSIONS
from mcp_bridge.protocol.text import cut

# Nested capabilities as in MCP: {"elicitation": {"url": {}}}.
_Capabilities: TypeAlias = dict[str, "_Capabilities"]


class ProtocolError(Exception):
    """An error that is sent to the client. Its text must not contain secrets."""

    code: int
    http_status: ClassVar[HTTPStatus] = HTTPStatus.BAD_REQUEST
    # The error code in the record of a call refused with this error.
    refusal: ClassVar[str] = "invalid"
    # Whether its HTTP status means the same to clients of every revision.
    keeps_status: ClassVar[bool] = False
    # HTTP headers that the response must have.
    headers: Mapping[str, str] = MappingProxyType({})
    # The result to send instead if the reply cannot have its own HTTP status.
    result: object = None

    def __init__(self, message: str, *, data: object = None) -> None:
        """Store the message and the data of the JSON-RPC error; None for no data."""
        super().__init__(message)
        self.data = data
        # The id to send back, set if the refused message had a readable one.
        self.request_id: str | int | None = None

    @property
    def message(self) -> str:
        """The text that is sent."""
        return str(self)


class ParseError(ProtocolError):
    code = -32700


class InvalidRequestError(ProtocolError):
    code = -32600


class SessionNotFoundError(InvalidRequestError):
    """A session that has ended, or is not the caller's (MCP 2025-11-25, "Session management")."""

    http_status = HTTPStatus.NOT_FOUND
    keeps_status = True

    def __init__(self) -> None:
        super().__init__("Session not found: send initialize to begin a new one.")


class PayloadTooLargeError(InvalidRequestError):
    http_status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class UnsupportedMediaTypeError(InvalidRequestError):
    http_status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class NotAcceptableError(InvalidRequestError):
    http_status = HTTPStatus.NOT_ACCEPTABLE


class MethodNotFoundError(ProtocolError):
    code = -32601
    http_status = HTTPStatus.NOT_FOUND

    def __init__(self, method: str) -> None:
        super().__init__(f"Method not found: {cut(method)}")


class InvalidParamsError(ProtocolError):
    # HTTP 200: dual-era clients fall back to initialize on a 400 without a modern error code.
    code = -32602
    http_status = HTTPStatus.OK


class MissingEnvelopeError(InvalidParamsError):
    """A modern request without a required member of ``params._meta``."""

    http_status = HTTPStatus.BAD_REQUEST


class UnknownFeatureError(InvalidParamsError):
    """The name of a tool, or of another feature, that is unknown or hidden from this caller."""

    refusal = "unknown_tool"


class UnknownToolError(UnknownFeatureError):
    def __init__(self, name: str) -> None:
        super().__init__(f"Unknown tool: {cut(name)}")


class UnknownPromptError(UnknownFeatureError):
    def __init__(self, name: str) -> None:
        super().__init__(f"Unknown prompt: {cut(name)}")


class ResourceNotFoundError(UnknownFeatureError):
    """A URI without a resource, or with one that is hidden (MCP 2026-07-28, "Resources")."""

    def __init__(self, uri: str) -> None:
        super().__init__("Resource not found", data={"uri": cut(uri)})


class InternalError(ProtocolError):
    code = -32603
    http_status = HTTPStatus.OK
    refusal = "internal_error"


class UnavailableError(InternalError):
    """A temporary failure: the same request may succeed after ``retry_after`` seconds."""

    http_status = HTTPStatus.SERVICE_UNAVAILABLE
    refusal = "unavailable"

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.headers = {"Retry-After": str(retry_after)}


class HeaderMismatchError(ProtocolError):
    code = -32020

    def __init__(self, text: str) -> None:
        super().__init__(f"Header mismatch: {text}")


class MissingRequiredClientCapabilityError(ProtocolError):
    code = -32021

    def __init__(self, *capabilities: str, legacy: str | None = None, asked: bool = False) -> None:
        """
        Take names ("elicitation.url", "extensions.NAME"), and the version of a legacy client.

        ``asked`` is true if the call could ask a client that declared them in ``initialize``.
        """
        named = " and ".join(capabilities)
        required: _Capabilities = {}
        for name in capabilities:
            inner = required
            # Names of extensions have dots.
            for part in name.split(".", 1 if name.startswith("extensions.") else -1):
                inner = inner.setdefault(part, {})
        text = (
            f"This request requires the client capability {named}: declare it in "
            "params._meta['io.modelcontextprotocol/clientCapabilities']."
        )
        if legacy is not None:
            who = "user" if set(required) == {"elicitation"} else "client"
            why = f"requires MCP 2026-07-28; this client uses MCP {legacy}"
            if asked:
                why = "this client did not declare in initialize"
            text = f"This tool asks its {who} ({named}), which {why}."
        super().__init__(text, data={"requiredCapabilities": required})


class UnsupportedProtocolVersionError(ProtocolError):
    code = -32022

    def __init__(self, requested: str) -> None:
        super().__init__(
            f"Unsupported protocol version: this server supports {', '.join(SUPPORTED_VERSIONS)}.",
            data={"supported": list(SUPPORTED_VERSIONS), "requested": requested[:64]},
        )


class UnauthorizedError(ProtocolError):
    """A missing or invalid credential. ``challenge`` is the WWW-Authenticate header."""

    # Outside JSON-RPC's reserved range, as MCP requires of other codes.
    code = 401
    http_status = HTTPStatus.UNAUTHORIZED
    refusal = "unauthenticated"

    def __init__(self, message: str, challenge: str) -> None:
        super().__init__(message)
        self.headers = {"WWW-Authenticate": challenge}


class ForbiddenError(ProtocolError):
    code = 403
    http_status = HTTPStatus.FORBIDDEN


class InsufficientScopeError(ForbiddenError):
    """
    A credential without the required scopes (RFC 6750, section 3.1).

    ``challenge`` is the WWW-Authenticate header, with which a client can request more scopes;
    ``result`` is sent to the model if that header cannot be sent.
    """

    refusal = "insufficient_scope"

    def __init__(self, message: str, challenge: str, result: object) -> None:
        super().__init__(message)
        self.headers = {"WWW-Authenticate": challenge}
        self.result = result


class TooManyRequestsError(ProtocolError):
    """Too many requests from the caller; ``retry_after`` is in seconds, None if unknown."""

    code = 429
    http_status = HTTPStatus.TOO_MANY_REQUESTS
    refusal = "throttled"

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        if retry_after is not None:
            self.headers = {"Retry-After": str(retry_after)}


class BusyError(TooManyRequestsError):
    """A server at its limit of concurrent work, for all callers."""

    code = 503
    http_status = HTTPStatus.SERVICE_UNAVAILABLE
