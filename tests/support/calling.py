"""Coroutines that record the thread in which they go on, run in the thread of a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp_bridge.concurrency.places import alternate, drive
from mcp_bridge.features import Context
from mcp_bridge.protocol import Reply, Request, answer
from mcp_bridge.server.server import MCPServer


def handled(server: MCPServer, request: Request, context: Context) -> Any:
    """Return the result of a request, as under WSGI."""
    return drive(server.handle(request, context))


async def handled_on_loop(server: MCPServer, request: Request, context: Context) -> Any:
    """Return the result of a request, as under ASGI."""
    return await alternate(server.handle(request, context))


def replied(body: bytes, handle: Callable[[Request], Any], **options: Any) -> Reply:
    """Return the reply to a body, if a plain function handles its requests."""

    async def in_its_place(request: Request) -> Any:
        return handle(request)

    return drive(answer(body, in_its_place, **options))
