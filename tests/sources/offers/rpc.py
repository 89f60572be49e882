"""Procedures of django-modern-rpc."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from django.urls import URLPattern, path
from modernrpc.server import RpcServer
from pydantic import Field

from mcp_bridge import Context, ToolError, mcp_tool
from tests.sources.offers import MISSING, RUNS, SECRET

SOURCE: dict[str, Any] = {}
server = RpcServer(register_system_procedures=False)
Number = Annotated[int, Field(ge=1, le=100)]


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def count(number: Number, *, caller: Context) -> dict[str, Any]:
    """Count to a number."""
    return {"number": number, "user": caller.user.get_username()}


@server.register_procedure
@mcp_tool(public=True)
def missing() -> str:
    """Look for an article."""
    raise ToolError(MISSING)


@server.register_procedure
@mcp_tool(public=True)
def broken() -> str:
    """Fail."""
    raise RuntimeError(SECRET)


@server.register_procedure
@mcp_tool(permissions="auth.view_user", read_only=True)
def guarded(number: Number, *, caller: Context) -> dict[str, Any]:
    """Count for some."""
    return {"number": number, "user": caller.user.get_username()}


@server.register_procedure
@mcp_tool(public=True, destructive=True)
def wipe(name: str) -> str:
    """Wipe something."""
    RUNS.append(name)
    return f"{name} is wiped"


@contextmanager
def offered() -> Iterator[list[URLPattern]]:
    yield [path("rpc", server.view)]
