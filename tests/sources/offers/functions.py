"""Plain functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.urls import URLPattern

from mcp_bridge import Context, ToolError, mcp_tool, mcp_toolset
from tests.sources.offers import MISSING, RUNS, SECRET
from tests.sources.offers.rpc import Number

SOURCE: dict[str, Any] = {
    "BACKEND": "mcp_bridge.sources.functions.FunctionSource",
    "OPTIONS": {"modules": [__name__]},
}


@mcp_tool(public=True, read_only=True)
def count(number: Number, *, caller: Context) -> dict[str, Any]:
    """Count to a number."""
    return {"number": number, "user": caller.user.get_username()}


@mcp_toolset(prefix="")
class Articles:
    def __init__(self, context: Context) -> None:
        self.user = context.user

    @mcp_tool(public=True)
    def missing(self) -> str:
        """Look for an article."""
        raise ToolError(MISSING)

    @mcp_tool(public=True)
    def broken(self) -> str:
        """Fail."""
        raise RuntimeError(SECRET)

    @mcp_tool(permissions="auth.view_user", read_only=True)
    def guarded(self, number: Number) -> dict[str, Any]:
        """Count for some."""
        return {"number": number, "user": self.user.get_username()}

    @mcp_tool(public=True, destructive=True)
    def wipe(self, name: str) -> str:
        """Wipe something."""
        RUNS.append(name)
        return f"{name} is wiped"


@contextmanager
def offered() -> Iterator[list[URLPattern]]:
    yield []
