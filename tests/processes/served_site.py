"""A site whose server runs in a separate process, with a tool that reads and one that acts."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import threading
import time
import warnings

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.processes.served_settings")
django.setup()

from django.contrib.auth.models import Group  # noqa: E402
from django.core.handlers.asgi import ASGIHandler  # noqa: E402
from django.core.handlers.wsgi import WSGIHandler  # noqa: E402
from django.urls import include, path  # noqa: E402
from modernrpc.server import RpcServer  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from mcp_bridge import Context, mcp_prompt, mcp_tool  # noqa: E402
from mcp_bridge.elicitation import elicit  # noqa: E402
from mcp_bridge.ext.lane import MCPApplication  # noqa: E402
from mcp_bridge.server import listening  # noqa: E402
from mcp_bridge.views import AsyncMCPView, MCPView  # noqa: E402

if "SERVED_SUBSCRIPTIONS" in os.environ:
    # All clients of the benchmark are one caller.
    listening.MOST_OF_CALLER = int(os.environ["SERVED_SUBSCRIPTIONS"])  # type: ignore[misc]

server = RpcServer(register_system_procedures=False)


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def look(number: int, seconds: float = 0) -> int:
    """Look at a number for a while."""
    time.sleep(seconds)
    return number


@server.register_procedure
@mcp_tool(public=True)
def act(number: int) -> int:
    """Write a group."""
    Group.objects.create(name=f"group {number}")
    return number


@server.register_procedure
@mcp_tool(public=True)
def hold(number: int, seconds: float) -> int:
    """Write a group, and keep others from writing for a while."""
    Group.objects.create(name=f"held {number}")
    time.sleep(seconds)
    return number


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def count(context: Context, of: int, seconds: float = 0) -> int:
    """Report each number."""
    for number in range(1, of + 1):
        context.progress(number, of)
        time.sleep(seconds)
    return of


@server.register_procedure
@mcp_tool(public=True, read_only=True)
async def acount(context: Context, of: int, seconds: float = 0) -> int:
    """Report each number."""
    for number in range(1, of + 1):
        context.progress(number, of)
        await asyncio.sleep(seconds)
    return of


@server.register_procedure
@mcp_tool(public=True)
def fill(context: Context, of: int) -> int:
    """Write groups slowly, and report each."""
    for number in range(1, of + 1):
        Group.objects.create(name=f"filled {number}")
        context.progress(number, of)
        time.sleep(0.02)
    return of


@server.register_procedure
@mcp_tool(public=True)
async def afill(context: Context, of: int) -> int:
    """Write groups slowly, and report each."""
    for number in range(1, of + 1):
        await Group.objects.acreate(name=f"filled {number}")
        context.progress(number, of)
        await asyncio.sleep(0.02)
    return of


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def shout(word: str) -> str:
    """Write to standard output in every way."""
    print(f"printed {word}", flush=True)
    os.write(1, f"written {word}\n".encode())
    subprocess.run(["echo", f"echoed {word}"], check=True)
    warnings.warn(f"warned {word}", stacklevel=1)
    logging.getLogger("site").warning("logged %s", word)
    # The messages of the client are not for child processes.
    return subprocess.run(["cat"], check=True, capture_output=True, text=True).stdout + word


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def variable(name: str) -> str:
    """Return a variable of the environment."""
    return os.environ.get(name, "")


@server.register_procedure
@mcp_tool(read_only=True)
def whoami(context: Context) -> str:
    """Return the name of the caller."""
    return str(context.user.get_username())


@server.register_procedure
@mcp_tool(public=True, read_only=True)
def crowd(seconds: float) -> int:
    """Return how many of these run at once."""
    running.append(1)
    most = len(running)
    for _ in range(10):
        time.sleep(seconds / 10)
        most = max(most, len(running))
    running.pop()
    return most


running: list[int] = []


@server.register_procedure
@mcp_tool(public=True, read_only=True)
async def census() -> dict[str, int]:
    """Count the threads, tasks and files of the process, and the groups."""
    files = len(os.listdir("/proc/self/fd"))
    tasks, groups = len(asyncio.all_tasks()), await Group.objects.acount()
    return {"threads": threading.active_count(), "tasks": tasks, "files": files, "groups": groups}


class Name(BaseModel):
    name: str


def book(context: Context, train: str) -> str:
    """Book a train for the two whom the user names."""
    Group.objects.create(name=f"before {train}")
    who = elicit(context, f"Who takes {train}?", Name)
    other = elicit(context, "And who else?", Name)
    return f"{who.name} and {other.name}: {Group.objects.count()}"


def greet(context: Context) -> str:
    """Greet whom the user names."""
    return f"Hello, {elicit(context, 'Whom?', Name).name}."


async def abook(context: Context, train: str) -> str:
    """Book a train for the two whom the user names."""
    await Group.objects.acreate(name=f"before {train}")
    who = elicit(context, f"Who takes {train}?", Name)
    other = elicit(context, "And who else?", Name)
    return f"{who.name} and {other.name}: {await Group.objects.acount()}"


for each in (book, abook, greet):
    server.register_procedure(mcp_tool(public=True)(each))


@server.register_procedure
@mcp_tool(confirm=True)
def wipe() -> str:
    """Delete nothing, once a person agrees."""
    return "wiped"


@server.register_procedure
@mcp_prompt(public=True)
def greeting(context: Context) -> str:
    """Greet whom the user names."""
    return f"Greet {elicit(context, 'Whom?', Name).name}."


urlpatterns = [
    path("rpc", server.view),
    path("mcp", MCPView.as_view()),
    path("amcp", AsyncMCPView.as_view()),
    path("mcp/remote/", include("mcp_bridge.remote.urls")),
    path("amcp/remote/", include("mcp_bridge.remote.urls_async")),
    path("", include("mcp_bridge.urls")),
]
wsgi = WSGIHandler()
asgi = ASGIHandler()
direct = MCPApplication(asgi)
