"""
Check the headers that mirror a modern request's body (MCP 2026-07-28, "Streamable HTTP").

Names are case-insensitive, values are not; blanks around a value are ignored; a value in
``=?base64?…?=`` is decoded before it is compared.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from mcp_bridge.protocol.errors import HeaderMismatchError
from mcp_bridge.protocol.jsonrpc import JSONObject
from mcp_bridge.protocol.text import quoted

# RFC 9110, section 5.6.2.
FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# RFC 9110, section 5.5: a line break would begin another header.
FIELD_VALUE: Final = re.compile(r"[^\r\n\0]*")
_PREFIX: Final = "=?base64?"
_SUFFIX: Final = "?="
_PARAMETER: Final = "Mcp-Param-"
_PRINTABLE: Final = re.compile(r"[\t\x20-\x7e]*")
# An integer in a header, with as many digits as a JSON number may have.
_WHOLE: Final = re.compile(r"(-?[0-9]{1,309})(\.0+)?")


class Headers(NamedTuple):
    """The MCP headers of one HTTP request; None for one that is absent."""

    version: str | None = None
    method: str | None = None
    name: str | None = None
    # Contains the parameter headers, which only few tools use.
    environ: Mapping[str, object] = {}

    def __repr__(self) -> str:
        return f"Headers{self[:3]}"  # Without the credential: error reports show it.

    def check(self, version: str, method: str, name: str | None) -> None:
        """Raise HeaderMismatchError unless the headers match the body; None for no name."""
        _match("MCP-Protocol-Version", self.version, version)
        _match("Mcp-Method", self.method, method)
        if name is not None:
            sent = None if self.name is None else decoded_header("Mcp-Name", self.name)
            _match("Mcp-Name", sent, name)

    def check_parameters(
        self, parameters: Mapping[str, Sequence[str]], arguments: JSONObject
    ) -> None:
        """
        Raise HeaderMismatchError unless the Mcp-Param-* headers match the arguments.

        ``parameters`` maps each name to the path of the argument that it mirrors. A header without
        its argument is refused as well: an intermediary may have acted on it.
        """
        for name, path in parameters.items():
            header = _PARAMETER + name
            sent = self.environ.get(f"HTTP_{header.upper().replace('-', '_')}")
            given = sent.strip(" \t") if isinstance(sent, str) else None
            value = _at(arguments, path)
            expected = _text(value)
            if given is not None:
                if expected is None:
                    text = f"{header} was sent, but the body does not have its value."
                    raise HeaderMismatchError(text)
                if not _PRINTABLE.fullmatch(given):
                    raise HeaderMismatchError(
                        f"{header} has characters that headers cannot contain; "
                        f"send it as {_PREFIX}…{_SUFFIX}."
                    )
                given = decoded_header(header, given)
                # Normalise a number to the spelling of _text.
                whole = _WHOLE.fullmatch(given) if type(value) in (int, float) else None
                given = given if whole is None else str(int(whole[1]))
            if expected is not None:
                _match(header, given, expected)


def parameter_headers(
    parameters: Mapping[str, Sequence[str]], arguments: JSONObject
) -> dict[str, str]:
    """Return the Mcp-Param-* headers that a client sends with these arguments."""
    return {
        _PARAMETER + name: header_value(text)
        for name, path in parameters.items()
        if (text := _text(_at(arguments, path))) is not None
    }


def header_value(text: str) -> str:
    """Return a text as a client sends it in a header: in Base64 unless it is plain."""
    if text != text.strip() or not _PRINTABLE.fullmatch(text) or text.startswith(_PREFIX):
        return _encoded(text.encode("utf-8"))
    return text


def _at(value: object, path: Sequence[str]) -> object:
    """Return the member of nested objects at a path, or None."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _text(value: object) -> str | None:
    """Return a value as header text, or None for null, objects and arrays."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, str | int | float) else None


def _match(header: str, value: str | None, expected: str) -> None:
    if value is None:
        raise HeaderMismatchError(f"the header {header} is missing; send {quoted(expected)}.")
    if value != expected:
        text = f"{header} is {quoted(value)}, but the body says {quoted(expected)}."
        raise HeaderMismatchError(text)


def decoded_header(header: str, value: str) -> str:
    """Return the decoded value of a header. Raises HeaderMismatchError for invalid Base64."""
    if not (value.startswith(_PREFIX) and value.endswith(_SUFFIX)):
        return value
    with suppress(ValueError):
        raw = base64.b64decode(value[len(_PREFIX) : -len(_SUFFIX)], validate=True)
        # Accept only the canonical encoding, so that no intermediary reads another value.
        if _encoded(raw) == value:
            return raw.decode("utf-8")
    raise HeaderMismatchError(f"{header} is not valid Base64 of UTF-8 text.")


def _encoded(raw: bytes) -> str:
    return _PREFIX + base64.b64encode(raw).decode() + _SUFFIX
