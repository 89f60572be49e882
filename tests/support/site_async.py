"""The site of tests/support/site.py served under ASGI, with procedures that name their thread."""

from __future__ import annotations

import asyncio
import threading

from django.contrib.auth.models import Group
from django.urls import include, path
from modernrpc.server import RpcServer

from mcp_bridge import ToolError, mcp_tool
from mcp_bridge.views import MCPView
from tests.support.site import server

threads = RpcServer()
# A server with nothing for anonymous callers, named in SOURCES by the tests of challenges.
closed = RpcServer()
MEETING: list[asyncio.AbstractEventLoop] = []


@threads.register_procedure
@mcp_tool(public=True)
async def thread_of_coroutine() -> str:
    """Return the thread and the task that a coroutine function runs on."""
    return f"{threading.get_ident()} {asyncio.get_running_loop().is_running()}"


@threads.register_procedure
@mcp_tool(public=True)
def thread_of_function() -> str:
    """Return the thread that a function runs on."""
    return f"{threading.get_ident()} False"


@threads.register_procedure
@mcp_tool(public=True)
async def meet() -> str:
    """Wait for another call of the same procedure."""
    MEETING.append(asyncio.get_running_loop())
    while len(MEETING) < 2:
        await asyncio.sleep(0)
    return "met"


@threads.register_procedure
@mcp_tool
async def leave() -> str:
    """Raise SystemExit in a coroutine function."""
    raise SystemExit(3)


@threads.register_procedure
@mcp_tool
async def fail_later(how: str) -> str:
    """Fail in a coroutine function."""
    await asyncio.sleep(0)
    raise {"tool": ToolError("Say please."), "bug": RuntimeError("SECRET-MARKER")}[how]


@threads.register_procedure
@mcp_tool
async def count_groups() -> int:
    """Query the database in a coroutine function."""
    return await Group.objects.acount()


@closed.register_procedure
@mcp_tool
def secret() -> str:
    """Not for everybody."""
    return "secret"


urlpatterns = [
    path("rpc", server.view),
    path("threads", threads.async_view),
    path("", include("mcp_bridge.urls_async")),
    # The same tools under WSGI, to compare with.
    path("sync", MCPView.as_view()),
]
