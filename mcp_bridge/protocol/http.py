"""
The headers that mirror a modern request's body.

See MCP 2026-07-28, "Streamable HTTP", "Standard request headers" and "Server validation": names are
case-insensitive, values are not; blanks around a value do not count; a value in
``=?base64?…?=`` is decoded before it is compared.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_bridge.protocol.errors import HeaderMismatchError
from mcp_bridge.protocol.jsonrpc import quoted

_PREFIX: Final = "=?base64?"
_SUFFIX: Final = "?="


@dataclass(frozen=True, slots=True)
class Headers:
    """The MCP headers of one HTTP request; None for one that is absent."""

    version: str | None = None
    method: str | None = None
    name: str | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, Any]) -> Headers:
        """Read them from a WSGI environ (PEP 3333), which Django also makes of an ASGI scope."""
        return cls(
            version=_trimmed(environ.get("HTTP_MCP_PROTOCOL_VERSION")),
            method=_trimmed(environ.get("HTTP_MCP_METHOD")),
            name=_trimmed(environ.get("HTTP_MCP_NAME")),
        )

    def check(self, version: str, method: str, name: str | None) -> None:
        """
        Raise HeaderMismatchError unless the headers say what the body says.

        ``name`` is what Mcp-Name must mirror, or None where the method has no such header.
        """
        _match("MCP-Protocol-Version", self.version, version)
        _match("Mcp-Method", self.method, method)
        if name is not None:
            decoded = None if self.name is None else _decoded("Mcp-Name", self.name)
            _match("Mcp-Name", decoded, name)


def _trimmed(value: Any) -> str | None:
    return value.strip(" \t") if isinstance(value, str) else None


def _match(header: str, value: str | None, expected: str) -> None:
    if value is None:
        raise HeaderMismatchError(
            f"Header mismatch: the header {header} is missing; send {quoted(expected)}."
        )
    if value != expected:
        raise HeaderMismatchError(
            f"Header mismatch: {header} is {quoted(value)}, but the body says {quoted(expected)}."
        )


def _decoded(header: str, value: str) -> str:
    if not (value.startswith(_PREFIX) and value.endswith(_SUFFIX)):
        return value
    encoded = value[len(_PREFIX) : -len(_SUFFIX)] if len(value) > len(_PREFIX) else ""
    try:
        raw = base64.b64decode(encoded.encode("ascii"), validate=True)
        # Only one spelling of each value, so that no intermediary reads another one.
        if raw and base64.b64encode(raw).decode("ascii") == encoded:
            return raw.decode("utf-8")
    except (binascii.Error, UnicodeError):
        pass
    raise HeaderMismatchError(f"Header mismatch: {header} is not valid Base64 of UTF-8 text.")
