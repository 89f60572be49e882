"""A remote server whose tools and answers a test chooses, and a site that is connected to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import mark_approved
from mcp_bridge.remote.models import RemoteServer
from mcp_bridge.remote.sync import sync
from tests.remote.upstreams.writing import MODERN
from tests.support.services import Received, send, service

OBJECT = {"type": "object", "properties": {}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FORECAST = {"name": "forecast", "description": "Forecast the weather.", "inputSchema": CITY}


def tool(name: str, **members: Any) -> dict[str, Any]:
    """Return a definition."""
    return {"name": name, "inputSchema": OBJECT, **members}


def text(words: str, **members: Any) -> dict[str, Any]:
    """Return a result."""
    return {"content": [{"type": "text", "text": words}], **members}


@dataclass
class Desk:
    """A modern server with JSON answers; ``answer`` returns the result of a call's params."""

    tools: list[dict[str, Any]] = field(default_factory=lambda: [FORECAST])
    answer: Callable[[dict[str, Any]], dict[str, Any]] = lambda params: text("sun")
    # Takes the place of all answers, if set.
    raw: Callable[[Received, BaseHTTPRequestHandler], None] | None = None
    page_size: int = 1000
    url: str = ""
    received: list[Received] = field(default_factory=list)

    def __call__(self, received: Received, handler: BaseHTTPRequestHandler) -> None:
        self.received.append(received)
        if self.raw is not None:
            self.raw(received, handler)
            return
        message = json.loads(received.body)
        params = message.get("params", {})
        results: dict[str, Callable[[], dict[str, Any]]] = {
            "server/discover": lambda: {"supportedVersions": [MODERN], "capabilities": {}},
            "tools/list": lambda: self._page(params),
            "tools/call": lambda: self.answer(params),
        }
        result = results[message["method"]]()
        send(handler, {"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _page(self, params: dict[str, Any]) -> dict[str, Any]:
        begin = int(params.get("cursor", 0))
        end = begin + self.page_size
        page: dict[str, Any] = {"tools": self.tools[begin:end]}
        if end < len(self.tools):
            page["nextCursor"] = str(end)
        return page

    @property
    def methods(self) -> list[str]:
        """The methods of the messages received."""
        return [json.loads(each.body)["method"] for each in self.received]

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The params of the calls received."""
        messages = [json.loads(each.body) for each in self.received]
        return [each["params"] for each in messages if each["method"] == "tools/call"]


@contextmanager
def open_desk(*tools: dict[str, Any], **options: Any) -> Iterator[Desk]:
    """Run a server; it ends with the block."""
    desk = Desk(list(tools) or [FORECAST], **options)
    with service(mcp=desk) as running:
        desk.url = f"{running.url}/mcp"
        yield desk


def allow(settings: Any, url: str, **more: Any) -> None:
    """Let the site connect to a server of the tests; its other tools are left out by default."""
    hosts = settings.MCP_BRIDGE.get("REMOTE_ALLOWED_HOSTS", [])
    settings.MCP_BRIDGE = {
        "SOURCES": {"rpc": None, "functions": None},
        **settings.MCP_BRIDGE,
        "REMOTE_ALLOWED_HOSTS": [*hosts, urlsplit(url).netloc],
        **more,
    }


def connect(settings: Any, desk: Desk, slug: str = "weather", **fields: Any) -> RemoteServer:
    """Return the row of a server whose tools have been fetched."""
    allow(settings, desk.url)
    server = RemoteServer(slug=slug, name=slug.title(), url=desk.url, **fields)
    server.full_clean()
    server.save()
    sync(server)
    return server


def enable(*names: str) -> None:
    """Enable and approve candidates, as an administrator does."""
    for name in names:
        setting = ToolSetting.objects.filter(name=name).first() or ToolSetting(name=name)
        setting.chosen = setting.enabled = True
        mark_approved(setting, registry.build(registry.discovered.candidates[name]))
        setting.save()


def serve_desk(settings: Any, desk: Desk, **fields: Any) -> RemoteServer:
    """Connect a site to a server, and enable all its tools."""
    server = connect(settings, desk, **fields)
    enable(*(str(each.name) for each in server.tools.filter(reason="")))
    return server
