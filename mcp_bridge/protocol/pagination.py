"""
Encode and decode cursors of ``tools/list``, which is ordered by name (MCP, "Pagination").

A cursor names the last tool seen, so that the client neither skips nor repeats tools if some are
added or removed between pages. Decimal offsets are accepted too.
"""

from __future__ import annotations

import base64
import re
from contextlib import suppress
from typing import Final

from mcp_bridge.protocol.errors import InvalidParamsError

# Names cannot contain the prefix, so that none is taken for an offset. Names are those that MCP
# allows ("Tools", "Tool names").
_POSITION: Final = re.compile(rb">([A-Za-z0-9_.-]{1,128})|([0-9]{1,9})")


def after(name: str) -> str:
    """Return the cursor for the tools after ``name``: URL-safe Base64 without padding."""
    return base64.urlsafe_b64encode(f">{name}".encode()).decode().rstrip("=")


def position(cursor: object) -> str | int:
    """Return the name after which to continue, or an offset. Raises InvalidParamsError."""
    if isinstance(cursor, str):
        with suppress(ValueError):
            # Excess padding is ignored.
            raw = base64.urlsafe_b64decode(cursor + "==")
            found = _POSITION.fullmatch(raw)
            # Accept only canonical Base64 (unused bits zero), with full padding or none.
            padded = base64.urlsafe_b64encode(raw).decode()
            if found is not None and cursor in (padded, padded.rstrip("=")):
                name, offset = found.groups()
                return int(offset) if name is None else name.decode()
    raise InvalidParamsError(
        "Invalid cursor: send the nextCursor of a previous page unchanged, or none to begin."
    )
