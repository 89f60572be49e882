"""
The headers that mirror a modern request's body (MCP 2026-07-28, "Streamable HTTP").

Names are case-insensitive, values are not; blanks around a value do not count; a value in
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

_PREFIX: Final = "=?base64?"
_SUFFIX: Final = "?="
_PARAMETER: Final = "Mcp-Param-"
_PRINTABLE: Final = re.compile(r"[\t\x20-\x7e]*")
# A whole number in a header; the digits are those that a JSON number may have.
_WHOLE: Final = re.compile(r"(-?[0-9]{1,309})(\.0+)?")


class Headers(NamedTuple):
    """The MCP headers of one HTTP request; None for one that is absent."""

    version: str | None = None
    method: str | None = None
    name: str | None = None
    # The headers of parameters stand here; only few tools have them read.
    environ: Mapping[str, object] = {}

    def check(self, version: str, method: str, name: str | None) -> None:
        """Raise HeaderMismatchError unless the headers say what the body says; None for no name."""
        _match("MCP-Protocol-Version", self.version, version)
        _match("Mcp-Method", self.method, method)
        if name is not None:
            sent = None if self.name is None else decoded_header("Mcp-Name", self.name)
            _match("Mcp-Name", sent, name)

    def check_parameters(
        self, parameters: Mapping[str, Sequence[str]], arguments: JSONObject
    ) -> None:
        """
        Raise HeaderMismatchError unless the Mcp-Param-* headers have the arguments' values.

        ``parameters`` gives the path of the argument that each name mirrors. A header without
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
                    raise HeaderMismatchError(
                        f"Header mismatch: {header} was sent, but the body has nothing for it."
                    )
                if not _PRINTABLE.fullmatch(given):
                    raise HeaderMismatchError(
                        f"Header mismatch: {header} holds what a header cannot; send it as "
                        f"{_PREFIX}…{_SUFFIX}."
                    )
                given = decoded_header(header, given)
                # A number in the one spelling that _text gives it.
                whole = _WHOLE.fullmatch(given) if type(value) in (int, float) else None
                given = given if whole is None else str(int(whole[1]))
            if expected is not None:
                _match(header, given, expected)


def parameter_headers(
    parameters: Mapping[str, Sequence[str]], arguments: JSONObject
) -> dict[str, str]:
    """Return the Mcp-Param-* headers that a client sends with these arguments."""
    headers = {}
    for name, path in parameters.items():
        text = _text(_at(arguments, path))
        if text is not None:
            headers[_PARAMETER + name] = header_value(text)
    return headers


def header_value(text: str) -> str:
    """Return a text as a client writes it in a header: in Base64 where it is not plain."""
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
    """Return a value as a header's text, or None for values without one: null, objects, arrays."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, str | int | float) else None


def _match(header: str, value: str | None, expected: str) -> None:
    if value is None:
        raise HeaderMismatchError(
            f"Header mismatch: the header {header} is missing; send {quoted(expected)}."
        )
    if value != expected:
        raise HeaderMismatchError(
            f"Header mismatch: {header} is {quoted(value)}, but the body says {quoted(expected)}."
        )


def decoded_header(header: str, value: str) -> str:
    """Return the value that a header says. Raises HeaderMismatchError for broken Base64."""
    if not (value.startswith(_PREFIX) and value.endswith(_SUFFIX)):
        return value
    with suppress(ValueError):
        raw = base64.b64decode(value[len(_PREFIX) : -len(_SUFFIX)], validate=True)
        # Only one spelling of each value, so that no intermediary reads another one.
        if _encoded(raw) == value:
            return raw.decode("utf-8")
    raise HeaderMismatchError(f"Header mismatch: {header} is not valid Base64 of UTF-8 text.")


def _encoded(raw: bytes) -> str:
    return _PREFIX + base64.b64encode(raw).decode() + _SUFFIX
