"""A site whose tools last until a file exists, under ASGI: by Django and on the direct lane."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.processes.crowded_settings")
django.setup()

from django.contrib.auth.models import Group  # noqa: E402
from django.core.handlers.asgi import ASGIHandler  # noqa: E402
from django.db.backends.signals import connection_created  # noqa: E402
from django.urls import include, path  # noqa: E402
from modernrpc.server import RpcServer  # noqa: E402

from mcp_bridge import mcp_tool  # noqa: E402
from mcp_bridge.ext.lane import MCPApplication  # noqa: E402

server = RpcServer(register_system_procedures=False)
END = Path(os.environ["CROWDED_END"])
MOST = END.with_name("most")
opened: list[Any] = []
lock = threading.Lock()


def note_most(connection: Any, **kwargs: object) -> None:
    """Keep how many connections this process had at once in a file."""
    with lock:
        opened[:] = [each for each in opened if not each.closed]
        opened.append(connection.connection)
        before = int(MOST.read_text()) if MOST.exists() else 0
        MOST.write_text(str(max(before, len(opened))))


connection_created.connect(note_most)


@server.register_procedure
@mcp_tool
def occupy() -> int:
    """Count groups in a transaction until the file exists."""
    found = Group.objects.count()
    while not END.exists():
        time.sleep(0.05)
    return found


@server.register_procedure
@mcp_tool
async def wait() -> int:
    """Wait without the database until the file exists, and count groups then."""
    while not END.exists():
        await asyncio.sleep(0.05)
    return await Group.objects.acount()


@server.register_procedure
@mcp_tool(read_only=True)
def look() -> int:
    """Count groups."""
    return Group.objects.count()


urlpatterns = [path("rpc", server.view), path("", include("mcp_bridge.urls_async"))]
django_application = ASGIHandler()
direct_lane = MCPApplication(django_application)
