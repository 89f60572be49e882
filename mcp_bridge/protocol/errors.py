"""The errors of JSON-RPC 2.0 (section 5.1) and MCP 2026-07-28 ("Base protocol", "Error codes")."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import ClassVar, TypeAlias

from mcp_bridge.protocol.revisions import SUPPORTED_VERSIONS
from mcp_bridge.protocol.text import cut

# Capabilities within capabilities, as MCP writes them: {"elicitation": {"url": {}}}.
_Capabilities: TypeAlias = dict[str, "_Capabilities"]


class ProtocolError(Exception):
    """An error that is sent to the client, with its text, which therefore holds nothing secret."""

    code: ClassVar[int]
    http_status: ClassVar[HTTPStatus] = HTTPStatus.BAD_REQUEST
    # The error code on record for a call that is refused with this error.
    refusal: ClassVar[str] = "invalid"
    # HTTP headers that the response must have.
    headers: Mapping[str, str] = MappingProxyType({})
    # The result to send in its place where the answer has no HTTP status of its own.
    result: object = None

    def __init__(self, message: str, *, data: object = None) -> None:
        """Take the message and the data of the JSON-RPC error; None for no data."""
        super().__init__(message)
        self.data = data
        # The id to send back, set where the refused message had a readable one.
        self.request_id: str | int | None = None

    @property
    def message(self) -> str:
        """Return the text that is sent."""
        return str(self)


class ParseError(ProtocolError):
    code = -32700


class InvalidRequestError(ProtocolError):
    code = -32600


class PayloadTooLargeError(InvalidRequestError):
    http_status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class UnsupportedMediaTypeError(InvalidRequestError):
    http_status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class NotAcceptableError(InvalidRequestError):
    http_status = HTTPStatus.NOT_ACCEPTABLE


class MethodNotFoundError(ProtocolError):
    code = -32601
    http_status = HTTPStatus.NOT_FOUND


class InvalidParamsError(ProtocolError):
    # HTTP 200: a 400 without one of the modern codes makes dual-era clients fall back to
    # initialize.
    code = -32602
    http_status = HTTPStatus.OK


class MissingEnvelopeError(InvalidParamsError):
    """A modern request lacks a member that must stand in ``params._meta``."""

    http_status = HTTPStatus.BAD_REQUEST


class UnknownToolError(InvalidParamsError):
    """No tool with that name, as far as this caller is concerned."""

    refusal = "unknown_tool"

    def __init__(self, name: str) -> None:
        super().__init__(f"Unknown tool: {cut(name)}")


class InternalError(ProtocolError):
    code = -32603
    http_status = HTTPStatus.OK


class UnavailableError(InternalError):
    """The server cannot answer just now; the same request may succeed after some seconds."""

    http_status = HTTPStatus.SERVICE_UNAVAILABLE
    refusal = "unavailable"

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.headers = {"Retry-After": str(retry_after)}


class HeaderMismatchError(ProtocolError):
    code = -32020


class MissingRequiredClientCapabilityError(ProtocolError):
    code = -32021

    def __init__(self, *capabilities: str, legacy: str | None = None) -> None:
        """Take names ("elicitation.url"), and the client's version if that cannot declare any."""
        named = " and ".join(capabilities)
        required: _Capabilities = {}
        for name in capabilities:
            inner = required
            for part in name.split("."):
                inner = inner.setdefault(part, {})
        text = (
            f"This request needs the client capability {named}: declare it in "
            "params._meta['io.modelcontextprotocol/clientCapabilities']."
        )
        if legacy is not None:
            who = "user" if set(required) == {"elicitation"} else "client"
            text = (
                f"This tool asks its {who} ({named}), which needs MCP 2026-07-28: this client "
                f"speaks MCP {legacy}."
            )
        super().__init__(text, data={"requiredCapabilities": required})


class UnsupportedProtocolVersionError(ProtocolError):
    code = -32022

    def __init__(self, requested: str) -> None:
        super().__init__(
            f"Unsupported protocol version: this server speaks {', '.join(SUPPORTED_VERSIONS)}.",
            data={"supported": list(SUPPORTED_VERSIONS), "requested": requested[:64]},
        )


class UnauthorizedError(ProtocolError):
    """No credential, or one that does not hold. ``challenge`` is the WWW-Authenticate header."""

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
    A credential without the scopes that are needed (RFC 6750, section 3.1).

    ``challenge`` is the WWW-Authenticate header, with which a client asks its user for more, and
    ``result`` what a model reads where there is no such header.
    """

    refusal = "insufficient_scope"

    def __init__(self, message: str, challenge: str, result: object) -> None:
        super().__init__(message)
        self.headers = {"WWW-Authenticate": challenge}
        self.result = result


class TooManyRequestsError(ProtocolError):
    """The caller sends too much; ``retry_after`` are the seconds to wait, if they are known."""

    code = 429
    http_status = HTTPStatus.TOO_MANY_REQUESTS
    refusal = "throttled"

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        if retry_after is not None:
            self.headers = {"Retry-After": str(retry_after)}


class BusyError(TooManyRequestsError):
    """The server does as much at once as it may, whoever asks."""

    code = 503
    http_status = HTTPStatus.SERVICE_UNAVAILABLE
