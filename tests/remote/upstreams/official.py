"""
The official Python servers of all kinds in one process, each at ``/<kind>/mcp``.

``python -m tests.remote.upstreams.official 3`` serves the listening socket with descriptor 3, until
its input ends.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import uvicorn
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.remote.upstreams.tools import server_of

# By kind: whether answers are JSON, and whether there are sessions.
KINDS = {
    "modern_json": (True, True),
    "modern_sse": (False, True),
    "legacy_stateful_json": (True, True),
    "legacy_stateful_sse": (False, True),
    "legacy_stateless_json": (True, False),
    "legacy_stateless_sse": (False, False),
    "asking": (False, True),
}


class Legacy:
    """A server that refuses other revisions than the legacy ones, as version 1 of the SDK does."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        version = Headers(scope=scope).get("mcp-protocol-version", "2025-11-25")
        if version in HANDSHAKE_PROTOCOL_VERSIONS:
            await self.app(scope, receive, send)
            return
        error = {"code": -32600, "message": f"Bad Request: Unsupported protocol version: {version}"}
        body = {"jsonrpc": "2.0", "id": "server-error", "error": error}
        await JSONResponse(body, 400)(scope, receive, send)


def site() -> Starlette:
    """Return an application with all servers."""
    apps = {
        kind: server_of(asks=kind == "asking").streamable_http_app(
            json_response=is_json, stateless_http=not has_sessions
        )
        for kind, (is_json, has_sessions) in KINDS.items()
    }

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for each in apps.values():
                await stack.enter_async_context(each.router.lifespan_context(each))
            yield

    routes = [
        Mount(f"/{kind}", Legacy(app) if kind.startswith("legacy") else app)
        for kind, app in apps.items()
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=end_with_input, daemon=True).start()
    config = uvicorn.Config(site(), log_level="error", ws="none")
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
