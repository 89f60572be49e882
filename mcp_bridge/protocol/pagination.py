"""
Cursors for ``tools/list``: positions in a list that is ordered by name.

A cursor that the server gives out names the last tool seen, so that a tool that appears or
disappears meanwhile never makes the client skip or repeat another one. An offset, written in
decimal digits, is understood too. See MCP, "Pagination".
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

from mcp_bridge.protocol.errors import InvalidParamsError

# No tool name holds this character, so that a position is never taken for an offset.
_AFTER: Final = ">"
_OFFSET: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_CURSOR: Final = re.compile(r"[A-Za-z0-9_+/-]{1,512}={0,2}", re.ASCII)


def after(name: str) -> str:
    """The cursor for what follows the tool ``name``: url-safe base64 without padding."""
    return base64.urlsafe_b64encode(f"{_AFTER}{name}".encode()).decode("ascii").rstrip("=")


def position(cursor: Any) -> str | int:
    """
    What a cursor says: the name after which to go on, or an offset.

    Raises InvalidParamsError for anything that no cursor can be.
    """
    if isinstance(cursor, str) and _CURSOR.fullmatch(cursor):
        text = _text(cursor)
        if text.startswith(_AFTER) and len(text) > 1:
            return text[1:]
        if _OFFSET.fullmatch(text):
            return int(text)
    raise invalid_cursor()


def invalid_cursor() -> InvalidParamsError:
    return InvalidParamsError(
        "Invalid cursor: send the nextCursor of an earlier page as it came, or none to begin."
    )


def _text(cursor: str) -> str:
    """What a cursor encodes; "" where it is not the one spelling of anything."""
    unpadded = cursor.rstrip("=").replace("+", "-").replace("/", "_")
    padding = "=" * (-len(unpadded) % 4)
    try:
        raw = base64.urlsafe_b64decode(unpadded + padding)
        text = raw.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    encoded = base64.urlsafe_b64encode(raw).decode("ascii")
    spelt = cursor.replace("+", "-").replace("/", "_")
    return text if spelt in (encoded, encoded.rstrip("=")) else ""
