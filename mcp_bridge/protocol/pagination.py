"""
Cursors for ``tools/list``: positions in a list that is ordered by name (MCP, "Pagination").

A cursor names the last tool seen, so that one that appears or disappears meanwhile never makes the
client skip or repeat another. An offset, written in decimal digits, is understood too.
"""

from __future__ import annotations

import base64
import re
from contextlib import suppress
from typing import Final

from mcp_bridge.protocol.errors import InvalidParamsError

# The mark before a name is no character of one, so that no name is taken for an offset. The names
# are those that MCP allows ("Tools", "Tool names").
_POSITION: Final = re.compile(rb">([A-Za-z0-9_.-]{1,128})|([0-9]{1,9})")


def after(name: str) -> str:
    """Return the cursor for the tools after ``name``: url-safe base64 without padding."""
    return base64.urlsafe_b64encode(f">{name}".encode()).decode().rstrip("=")


def position(cursor: object) -> str | int:
    """Return the name after which to go on, or an offset. Raises InvalidParamsError."""
    if isinstance(cursor, str):
        with suppress(ValueError):
            # What is too much of padding is passed over.
            raw = base64.urlsafe_b64decode(cursor + "==")
            found = _POSITION.fullmatch(raw)
            # Base64 leaves bits unused at the end, and its padding is whole or none.
            padded = base64.urlsafe_b64encode(raw).decode()
            if found is not None and cursor in (padded, padded.rstrip("=")):
                name, offset = found.groups()
                return int(offset) if name is None else name.decode()
    raise InvalidParamsError(
        "Invalid cursor: send the nextCursor of an earlier page as it came, or none to begin."
    )
