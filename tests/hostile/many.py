"""As many tools as HOSTILE_TOOLS says, for a long list."""

from __future__ import annotations

import os
from types import FunctionType

from mcp_bridge import mcp_tool


def search(section: str, words: list[str], limit: int = 10, draft: bool = False) -> list[str]:
    """Search a section by words, with a limit, and drafts or not."""
    return [section, *words][:limit]


for number in range(int(os.environ.get("HOSTILE_TOOLS", "0"))):
    name = f"search_{number:05}"
    copy = FunctionType(search.__code__, globals(), name, search.__defaults__)
    copy.__annotations__, copy.__doc__ = search.__annotations__, search.__doc__
    globals()[name] = mcp_tool(public=True, read_only=True)(copy)
