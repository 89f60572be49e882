"""
The errors of JSON-RPC 2.0 and MCP, each with its code and HTTP status.

    ProtocolError
    ├── ParseError                              -32700
    ├── InvalidRequestError                     -32600
    │   ├── PayloadTooLargeError                (413)
    │   ├── UnsupportedMediaTypeError           (415)
    │   └── NotAcceptableError                  (406)
    ├── MethodNotFoundError                     -32601
    ├── InvalidParamsError                      -32602
    │   ├── MissingEnvelopeError                (400)
    │   └── UnknownToolError
    ├── InternalError                           -32603
    │   └── UnavailableError                    (503)
    ├── HeaderMismatchError                     -32020
    ├── MissingRequiredClientCapabilityError    -32021
    ├── UnsupportedProtocolVersionError         -32022
    ├── UnauthorizedError                       401
    ├── ForbiddenError                          403
    └── TooManyRequestsError                    429

See JSON-RPC 2.0, section 5.1, and MCP 2026-07-28, "Base protocol", "Error codes".
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar


class ProtocolError(Exception):
    """What the client did wrong. Its text is sent to the client, so it holds nothing secret."""

    code: ClassVar[int]
    http_status: ClassVar[HTTPStatus]
    # What the record of a call that is refused so says.
    refusal: ClassVar[str] = "invalid"
    # Whether the same caller was refused so before in the same window of time, which is on record.
    repeated = False

    def __init__(self, message: str, *, data: Any = None) -> None:
        super().__init__(message)
        self.data = data
        # The id to echo, set where the message that is refused had a readable one.
        self.request_id: str | int | None = None

    @property
    def message(self) -> str:
        return str(self)

    @property
    def headers(self) -> Mapping[str, str]:
        """HTTP headers that the answer must carry."""
        return {}


class ParseError(ProtocolError):
    code = -32700
    http_status = HTTPStatus.BAD_REQUEST


class InvalidRequestError(ProtocolError):
    code = -32600
    http_status = HTTPStatus.BAD_REQUEST


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
    """A modern request lacks what must stand in ``params._meta``."""

    http_status = HTTPStatus.BAD_REQUEST


class UnknownToolError(InvalidParamsError):
    """No tool with that name, as far as this caller is concerned."""

    refusal = "unknown_tool"


class InternalError(ProtocolError):
    code = -32603
    http_status = HTTPStatus.OK


class UnavailableError(InternalError):
    """The server cannot answer just now; the same request may succeed after some seconds."""

    http_status = HTTPStatus.SERVICE_UNAVAILABLE
    refusal = "unavailable"

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": str(self.retry_after)}


class HeaderMismatchError(ProtocolError):
    code = -32020
    http_status = HTTPStatus.BAD_REQUEST


class MissingRequiredClientCapabilityError(ProtocolError):
    code = -32021
    http_status = HTTPStatus.BAD_REQUEST

    def __init__(self, *capabilities: str, legacy: str | None = None) -> None:
        """
        Capabilities by name, with a dot before what must stand in one: "elicitation.url".

        ``legacy`` is the version that the client speaks where that has no way to declare one.
        """
        named = " and ".join(capabilities)
        required: dict[str, Any] = {}
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
    http_status = HTTPStatus.BAD_REQUEST

    def __init__(self, requested: str, supported: tuple[str, ...]) -> None:
        super().__init__(
            f"Unsupported protocol version: this server speaks {', '.join(supported)}.",
            data={"supported": list(supported), "requested": requested[:64]},
        )


class UnauthorizedError(ProtocolError):
    """No credential, or one that does not hold. ``challenge`` is the WWW-Authenticate header."""

    # Outside JSON-RPC's reserved range, as MCP asks for codes of one's own.
    code = 401
    http_status = HTTPStatus.UNAUTHORIZED
    refusal = "unauthenticated"

    def __init__(self, message: str, challenge: str) -> None:
        super().__init__(message)
        self.challenge = challenge

    @property
    def headers(self) -> Mapping[str, str]:
        return {"WWW-Authenticate": self.challenge}


class ForbiddenError(ProtocolError):
    code = 403
    http_status = HTTPStatus.FORBIDDEN


class TooManyRequestsError(ProtocolError):
    """The caller asks too often; ``retry_after`` are the seconds to wait, where they are known."""

    code = 429
    http_status = HTTPStatus.TOO_MANY_REQUESTS
    refusal = "throttled"

    def __init__(
        self, message: str, retry_after: int | None = None, *, repeated: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.repeated = repeated

    @property
    def headers(self) -> Mapping[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
