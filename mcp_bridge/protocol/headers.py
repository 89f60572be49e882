"""
The headers that mirror a modern request's body.

See MCP 2026-07-28, "Streamable HTTP", "Standard request headers", "Custom headers from tool
parameters" and "Server validation": names are case-insensitive, values are not; blanks around a
value do not count; a value in ``=?base64?…?=`` is decoded before it is compared.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_bridge.protocol.errors import HeaderMismatchError
from mcp_bridge.protocol.text import quoted

_PREFIX: Final = "=?base64?"
_SUFFIX: Final = "?="
_PARAMETER: Final = "Mcp-Param-"
_PRINTABLE: Final = re.compile(r"[\t\x20-\x7e]*")
# A whole number in a header; the digits are those that a JSON number may have.
_WHOLE: Final = re.compile(r"(-?[0-9]{1,309})(\.0+)?")


@dataclass(frozen=True, slots=True)
class Headers:
    """The MCP headers of one HTTP request; None for one that is absent."""

    version: str | None = None
    method: str | None = None
    name: str | None = None
    # Where the headers of parameters are, which only few tools have read.
    environ: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def from_environ(cls, environ: Mapping[str, Any]) -> Headers:
        """Read them from a WSGI environ (PEP 3333), which Django also makes of an ASGI scope."""
        return cls(
            version=_trimmed(environ.get("HTTP_MCP_PROTOCOL_VERSION")),
            method=_trimmed(environ.get("HTTP_MCP_METHOD")),
            name=_trimmed(environ.get("HTTP_MCP_NAME")),
            environ=environ,
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

    def check_parameters(
        self, parameters: Mapping[str, Sequence[str]], arguments: Mapping[str, Any]
    ) -> None:
        """
        Raise HeaderMismatchError unless the Mcp-Param-* headers say what the arguments say.

        ``parameters`` gives the path of the argument that each name mirrors. A header without
        its argument is refused as well: somebody on the way may have gone by it.
        """
        for name, path in parameters.items():
            header = _PARAMETER + name
            given = _trimmed(self.environ.get(f"HTTP_{header.upper().replace('-', '_')}"))
            value = _at(arguments, path)
            expected = _text(value)
            if expected is not None:
                _match(header, _read(header, given, value), expected)
            elif given is not None:
                raise HeaderMismatchError(
                    f"Header mismatch: {header} was sent, but the body has nothing for it."
                )


def decoded_name(value: str) -> str:
    """Return what an Mcp-Name header says. Raises HeaderMismatchError for broken Base64."""
    return _decoded("Mcp-Name", value.strip(" \t"))


def parameter_headers(
    parameters: Mapping[str, Sequence[str]], arguments: Mapping[str, Any]
) -> dict[str, str]:
    """The Mcp-Param-* headers that a client sends with these arguments."""
    texts = {name: _text(_at(arguments, path)) for name, path in parameters.items()}
    return {_PARAMETER + name: _encoded(text) for name, text in texts.items() if text is not None}


def _at(arguments: Any, path: Sequence[str]) -> Any:
    for key in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(key)
    return arguments


def _text(value: Any) -> str | None:
    """A value as a header says it, or None for what no header says: null, objects, arrays."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, str | int | float) else None


def _read(header: str, given: str | None, value: Any) -> str | None:
    """What a header says; for a number in the one spelling that ``_text`` gives it."""
    if given is None:
        return None
    if not _PRINTABLE.fullmatch(given):
        raise HeaderMismatchError(
            f"Header mismatch: {header} holds what a header cannot; send it as {_PREFIX}…{_SUFFIX}."
        )
    decoded = _decoded(header, given)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    whole = _WHOLE.fullmatch(decoded) if is_number else None
    return decoded if whole is None else str(int(whole[1]))


def _encoded(text: str) -> str:
    plain = text == text.strip() and _PRINTABLE.fullmatch(text) and not text.startswith(_PREFIX)
    if plain:
        return text
    return _PREFIX + base64.b64encode(text.encode("utf-8")).decode("ascii") + _SUFFIX


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
        if (raw or value == _PREFIX + _SUFFIX) and base64.b64encode(raw).decode() == encoded:
            return raw.decode("utf-8")
    except (binascii.Error, UnicodeError):
        pass
    raise HeaderMismatchError(f"Header mismatch: {header} is not valid Base64 of UTF-8 text.")
