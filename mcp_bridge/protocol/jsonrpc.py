"""
Decode and encode JSON-RPC 2.0 messages, strictly.

Text that parsers could interpret differently is refused (RFC 8259): invalid UTF-8, a byte order
mark, NaN, duplicate members, trailing data, numbers out of range, lone surrogates.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final, NoReturn, TypeAlias

from mcp_bridge.protocol.errors import InvalidRequestError, ParseError, ProtocolError

# A JSON object; readers narrow the types of its values as needed.
JSONObject: TypeAlias = Mapping[str, Any]
# A JSON Schema (2020-12) that is an object.
JSONSchema: TypeAlias = Mapping[str, Any]
RequestId: TypeAlias = str | int

MAX_DEPTH: Final = 64
MAX_ID_LENGTH: Final = 256
MAX_ID: Final = 2**63
# Digits of the largest float; a schema cannot describe longer integers.
MAX_DIGITS: Final = 309

# Maps every digit to 0, to find a run of digits without a regular expression.
_DIGITS_AS_ZERO = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
_LONG_NUMBER = b"0" * MAX_DIGITS
# Escapes can encode a lone surrogate, which UTF-8 text cannot contain.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# Maps each bracket to its change of the depth, as a signed byte; all other bytes are deleted.
_STEPS = bytes({0x5B: 1, 0x7B: 1, 0x5D: 0xFF, 0x7D: 0xFF}.get(byte, 0) for byte in range(256))
_NO_BRACKETS = bytes(byte for byte in range(256) if not _STEPS[byte])


def decode(body: bytes) -> Any:
    """Return a JSON value. Raises ParseError, or InvalidRequestError for JSON that is ambiguous."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise ParseError("Parse error: the body is not UTF-8.") from None
    if text.startswith("\ufeff"):
        raise ParseError("Parse error: the body begins with a byte order mark; remove it.")
    if is_too_deep(body):
        raise ParseError(f"Parse error: nested more than {MAX_DEPTH} levels deep.")
    try:
        value = _decoder.decode(text)
    except (json.JSONDecodeError, RecursionError):
        raise ParseError("Parse error: the body is not one JSON text.") from None
    if _SURROGATE.search(text) is not None:
        try:
            encode(value)
        except ValueError:
            raise InvalidRequestError(
                "Invalid request: a string contains a lone surrogate, which is not a character."
            ) from None
    return value


def is_too_deep(text: bytes) -> bool:
    """Return whether objects and arrays of a JSON text are nested more than MAX_DEPTH levels."""
    if text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    # Not a Python loop: a request may contain a million brackets.
    steps = b"".join(split_at_quotes(text)[::2]).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > MAX_DEPTH


def split_at_quotes(text: bytes) -> list[bytes]:
    """Return the parts of a JSON text between quotation marks: every second one is a string."""
    # Replace escaped characters, some of which are quotation marks; strings keep their length.
    if b"\\" in text:
        text = text.replace(rb"\\", b"__").replace(rb"\"", b"__")
    return text.split(b'"')


def has_long_number(text: bytes) -> bool:
    """Return whether a JSON text has more digits in a row than may be parsed."""
    return len(text) >= MAX_DIGITS and _LONG_NUMBER in text.translate(_DIGITS_AS_ZERO)


def encode(value: object) -> bytes:
    """Return strict JSON in UTF-8. Raises ValueError (NaN, cycles, surrogates) or TypeError."""
    try:
        return _encoder.encode(value).encode("utf-8")
    except RecursionError:
        raise ValueError("nested too deeply for JSON") from None


def error_response(request_id: RequestId | None, error: ProtocolError) -> bytes:
    """Return an error response; the id is None if it was unreadable (JSON-RPC 2.0, section 5)."""
    members: dict[str, object] = {"code": error.code, "message": error.message}
    if error.data is not None:
        members["data"] = error.data
    return encode({"jsonrpc": "2.0", "id": request_id, "error": members})


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise InvalidRequestError(
            "Invalid request: an object has a duplicate member; send each member once."
        )
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise ParseError(f"Parse error: {name} is not a JSON number.")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ParseError("Parse error: a number is out of range.")
    return number


def _bounded(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ParseError(f"Parse error: a number has more than {MAX_DIGITS} digits.")
    return int(text)


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_decoder = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_constant=_refuse_constant,
    parse_float=_finite,
    parse_int=_bounded,
)
