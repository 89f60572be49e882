"""The tools of the official servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field


class Sum(BaseModel):
    total: int


class Name(BaseModel):
    name: str


Region = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]


def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


async def count(of: int, context: Context) -> int:
    """Report progress so often."""
    for number in range(of):
        await context.report_progress(number + 1, of, f"number {number + 1}")
    return of


def fail(reason: str) -> str:
    """Fail for a reason."""
    raise ToolError(reason)


def weather(region: Region, days: int = 1) -> list[str]:
    """Forecast the weather of a region, which a header names too."""
    return [f"{region}: rain"] * days


async def ask_name() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


async def greet(user: Annotated[Name, Resolve(ask_name)]) -> str:
    """Greet the user by the name that the user gives."""
    return f"Hello, {user.name}!"


def server_of(*, asks: bool) -> MCPServer:
    """Return a server with these tools, and the one that asks the user if it ``asks``."""
    server = MCPServer("upstream", version="1.0", instructions="Add numbers.", log_level="CRITICAL")
    tools: list[Callable[..., Any]] = [add, count, fail, weather, *([greet] if asks else [])]
    for tool in tools:
        server.add_tool(tool)
    return server
