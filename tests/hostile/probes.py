"""Tools that the cases call on either site. Each run leaves a byte, so that every run is seen."""

from __future__ import annotations

import os
from typing import Annotated

from mcp_bridge import mcp_tool
from mcp_bridge.schemas import McpHeader


def _note_run() -> None:
    with open(os.environ["HOSTILE_RUNS"], "ab") as runs:
        runs.write(b".")


@mcp_tool(public=True, read_only=True)
def echo(text: str) -> str:
    """Return the text."""
    _note_run()
    return text


@mcp_tool(public=True, read_only=True)
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    _note_run()
    return a + b


@mcp_tool(public=True, read_only=True)
async def aecho(text: str) -> str:
    """Return the text, without a thread if there is an event loop."""
    _note_run()
    return text


@mcp_tool(public=True, read_only=True)
def region(
    region: Annotated[str, McpHeader("Region")] = "", number: Annotated[int, McpHeader("No")] = 0
) -> str:
    """Return the region and the number, which a client repeats in headers."""
    _note_run()
    return f"{region}{number}"


@mcp_tool(confirm=True)
def erase(word: str) -> str:
    """Run only after a person has confirmed it."""
    _note_run()
    return word


@mcp_tool(permissions="auth.delete_user")
def forbidden(text: str = "") -> str:
    """Never run: no caller here has the permission."""
    _note_run()
    return text


@mcp_tool(public=True)
def switched_off(text: str = "") -> str:
    """Never run: the tool is disabled."""
    _note_run()
    return text


def unmarked(text: str = "") -> str:
    """Never be a tool."""
    _note_run()
    return text
