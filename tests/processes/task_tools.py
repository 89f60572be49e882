"""Tools that run as tasks, and settings for the processes that call and run them."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from django.contrib.auth.models import Group
from django.utils import timezone, translation

from mcp_bridge import Context, mcp_tool


@mcp_tool(task=True)
def quick(number: int) -> int:
    """Write a group, and return the number."""
    Group.objects.create(name=f"quick {number} {time.monotonic_ns()}")
    return number


@mcp_tool(task=True)
def write(context: Context, items: int, pause: float = 0.05) -> int:
    """Write groups, each in a separate transaction, and report each."""
    for number in range(items):
        Group.objects.create(name=f"item {number}")
        context.progress(number + 1, items, f"item {number}")
        context.sleep(pause)
    return items


@mcp_tool(task=True)
async def wait(seconds: float) -> str:
    """Wait, in a coroutine."""
    await asyncio.sleep(seconds)
    return "waited"


@mcp_tool(task=True)
def kill() -> None:
    """End the process."""
    os.kill(os.getpid(), signal.SIGKILL)


@mcp_tool(task=True)
def place(context: Context) -> list[str]:
    """Return what the worker knows of the request."""
    now = timezone.localtime()
    return [
        *(translation.get_language() or "", str(now.tzinfo), context.absolute_url("/x")),
        *(context.user.get_username(), str(context.auth), str(context.request)),
    ]
