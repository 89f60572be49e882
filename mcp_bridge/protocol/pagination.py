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
    return base64.urlsafe_b64encode(f">{name}".encode()).decode("ascii").rstrip("=")


def position(cursor: object) -> str | int:
    """Return the name after which to go on, or an offset. Raises InvalidParamsError."""
    if isinstance(cursor, str):
        spelling = cursor.replace("+", "-").replace("/", "_")
        with suppress(ValueError):
            raw = base64.urlsafe_b64decode(spelling.rstrip("=") + "==")
            found = _POSITION.fullmatch(raw)
            # Base64 leaves bits unused at the end, and its padding is whole or none.
            padded = base64.urlsafe_b64encode(raw).decode("ascii")
            if found is not None and spelling in (padded, padded.rstrip("=")):
                name, offset = found.groups()
                return int(offset) if name is None else str(name, "ascii")
    raise InvalidParamsError(
        "Invalid cursor: send the nextCursor of an earlier page as it came, or none to begin."
    )
