"""Tools that read, that act, and that misbehave."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from typing import Any

from django.contrib.auth.models import Group

from mcp_bridge import Context, mcp_tool

# So that many groups need room.
LARGE = "x" * 100


@mcp_tool(public=True, read_only=True)
def look() -> int:
    """Count the groups."""
    return Group.objects.count()


@mcp_tool(public=True, read_only=True)
def idle() -> str:
    """Ask no database."""
    return "idle"


@mcp_tool(public=True)
def act(name: str) -> str:
    """Write a group."""
    return Group.objects.create(name=name).name


@mcp_tool(public=True)
def fill(count: int) -> int:
    """Write so many groups that they need room."""
    return len(Group.objects.bulk_create(Group(name=f"{n} {LARGE}") for n in range(count)))


@mcp_tool(public=True)
async def async_act(name: str) -> str:
    """Write a group in a coroutine."""
    return (await Group.objects.acreate(name=name)).name


@mcp_tool(public=True)
def wait_and_act(name: str, seconds: float) -> str:
    """Write a group, and go on for a while."""
    group = Group.objects.create(name=name)
    time.sleep(seconds)
    return group.name


@mcp_tool(public=True)
async def async_wait(seconds: float) -> str:
    """Wait on the event loop."""
    await asyncio.sleep(seconds)
    return "waited"


@mcp_tool(confirm=True)
def wipe(name: str) -> str:
    """Delete a group."""
    Group.objects.filter(name=name).delete()
    return name


@mcp_tool(public=True, read_only=True)
def worker() -> int:
    """Say which process answers."""
    return os.getpid()


def recurse() -> None:
    recurse()


def deep() -> Any:
    value: Any = []
    for _ in range(5000):
        value = [value]
    return value


class Unreadable:
    """An object that JSON cannot hold, and whose attributes cannot be read."""

    def __repr__(self) -> str:
        raise RuntimeError("SECRET-MARKER")


WRONG: dict[str, Any] = {
    "raises": lambda: (_ for _ in ()).throw(RuntimeError("SECRET-MARKER")),
    "TypeError": lambda: "SECRET-MARKER" + 1,  # type: ignore[operator]
    "SystemExit": lambda: sys.exit("SECRET-MARKER"),
    "KeyboardInterrupt": lambda: (_ for _ in ()).throw(KeyboardInterrupt("SECRET-MARKER")),
    "RecursionError": recurse,
    "MemoryError": lambda: (_ for _ in ()).throw(MemoryError("SECRET-MARKER")),
    "NaN": lambda: math.nan,
    "surrogate": lambda: "SECRET-MARKER \ud800",
    "many digits": lambda: 10**5000,
    "deep": deep,
    "object": Unreadable,
    "large": lambda: "x" * 30_000_000,
}


@mcp_tool(public=True)
def go_wrong(how: str) -> Any:
    """Write a group, and misbehave."""
    Group.objects.create(name=how)
    return WRONG[how]()


@mcp_tool(public=True)
async def async_go_wrong(how: str) -> Any:
    """Write a group, and misbehave in a coroutine."""
    await Group.objects.acreate(name=how)
    return WRONG[how]()


@mcp_tool
def who(context: Context) -> str:
    """Say who calls."""
    return str(context.user.get_username())


@mcp_tool(public=True, destructive=True)
def destroy() -> str:
    """Destroy something for ever."""
    return "destroyed"


@mcp_tool(confirm=True)
def confirmed_act(name: str) -> str:
    """Write a group, once a person has agreed."""
    return act(name)


@mcp_tool(public=True, task=True)
def act_as_task(name: str) -> str:
    """Write a group in a worker."""
    return act(name)


@mcp_tool(public=True, task=True)
def act_and_wait(name: str, seconds: float) -> str:
    """Write a group in a worker, and go on for a while."""
    return wait_and_act(name, seconds)
