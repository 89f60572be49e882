"""Tools of another MCP server, all enabled by an administrator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.models import Group
from django.db.models import F
from django.urls import URLPattern
from django.utils import timezone

from mcp_bridge.remote.models import RemoteServer
from tests.sources.offers import MISSING, RUNS, SECRET
from tests.support import services
from tests.support.serving import set_tool

SOURCE: dict[str, Any] = {"BACKEND": "mcp_bridge.remote.source.RemoteSource"}
SETTINGS: dict[str, Any] = {"REMOTE_TOKEN_FOR": f"{__name__}.token_for"}
NUMBER = {"type": "integer", "minimum": 1, "maximum": 100}
READ_ONLY, DESTRUCTIVE = {"readOnlyHint": True}, {"destructiveHint": True}


def definition(name: str, hints: dict[str, bool], /, **properties: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    described = {"name": name, "description": f"Do what {name} does.", "inputSchema": schema}
    return {**described, "annotations": hints}


DEFINITIONS = [
    definition("count", READ_ONLY, number=NUMBER),
    definition("guarded", READ_ONLY, number=NUMBER),
    definition("missing", {}),
    definition("broken", {}),
    definition("wipe", DESTRUCTIVE, name={"type": "string"}),
]


def token_for(user: Any, server: RemoteServer) -> str:
    return str(user.get_username())


def answer(received: services.Received, handler: Any) -> None:
    """Answer a call, as a modern server does."""
    message = json.loads(received.body)
    name, arguments = (message["params"][each] for each in ("name", "arguments"))
    if name == "broken":
        services.send(handler, SECRET.encode(), status=500, kind="text/html")
        return
    result: dict[str, Any] = {"content": [{"type": "text", "text": MISSING}], "isError": True}
    if name != "missing":
        user = received.headers["authorization"].removeprefix("Bearer ")
        value = {"number": arguments["number"], "user": user} if name != "wipe" else arguments
        if name == "wipe":
            RUNS.append(arguments["name"])
        text = {"type": "text", "text": json.dumps(value)}
        result = {"content": [text], "structuredContent": value}
    services.send(handler, {"jsonrpc": "2.0", "id": message["id"], "result": result})


@contextmanager
def offered() -> Iterator[list[URLPattern]]:
    with services.service(mcp=answer) as running:
        SETTINGS["REMOTE_ALLOWED_HOSTS"] = [urlsplit(running.url).netloc]
        server = RemoteServer.objects.create(
            slug="other",
            name="Other",
            url=f"{running.url}/mcp",
            auth=RemoteServer.Auth.PER_USER,
            version="2026-07-28",
        )
        for each in DEFINITIONS:
            server.tools.create(
                remote_name=each["name"], definition=json.dumps(each), seen_at=timezone.now()
            )
        # Named as those of the other sources are, without the server's prefix.
        server.tools.update(name=F("remote_name"))
        for each in DEFINITIONS:
            set_tool(each["name"], chosen=True)
        set_tool("guarded", restricted=True).groups.add(Group.objects.create(name="guards"))
        yield []


def allow(user: Any) -> None:
    """Let a user call the guarded tool, by its group."""
    user.groups.add(Group.objects.get(name="guards"))
