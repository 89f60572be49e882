"""Remote servers of live sites: official clients, clients that leave, and several processes."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from mcp_bridge.testing import MCPClient
from tests.processes import test_end_of_servers
from tests.processes.test_end_of_servers import Server
from tests.processes.test_live_streams import census, path_of
from tests.remote.conftest import official
from tests.remote.desk import open_desk
from tests.remote.upstreams.writing import begin, chunk, event
from tests.support.services import Received

start, database = test_end_of_servers.start, test_end_of_servers.database
__all__ = ["official"]

NOTICE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}}
STREAMS = 200


@pytest.fixture(params=["gunicorn, threads", "uvicorn", "uvicorn, direct"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


CONNECT = """
from django.contrib.auth.models import User
from mcp_bridge.remote.models import RemoteServer
from mcp_bridge.tokens.models import Token
RemoteServer.objects.create(slug="far", name="Far", url={url!r}, permission="auth.view_group")
print(Token.objects.issue(user=User.objects.create_superuser("ada"), name="Laptop")[1])
"""
ENABLE = """
from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import mark_approved
from mcp_bridge.remote.models import RemoteServer
from mcp_bridge.remote.sync import sync
sync(RemoteServer.objects.get())
row = ToolSetting(name="far_add", chosen=True)
mark_approved(row, registry.build(registry.discovered.candidates["far_add"]))
row.save()
"""


@pytest.fixture
def site(
    start: Callable[[str], Server], official: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Server, str]]:
    """Start a site that is connected to a server; it returns a token of a superuser too."""

    def connected(kind: str, url: str = "", **more: str) -> tuple[Server, str]:
        url = url or f"{official}/modern_sse/mcp"
        monkeypatch.setenv("SERVED_REMOTE", url.split("/")[2])
        for name, value in more.items():
            monkeypatch.setenv(name, value)
        server = start(kind)
        return server, server.shell(CONNECT.format(url=url))

    return connected


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_official_client_reaches_the_server_through_the_site(
    site: Callable[..., tuple[Server, str]], official: str, kind: str, era: str
) -> None:
    name = "legacy_stateful_sse" if era == "legacy" else "modern_sse"
    server, token = site(kind, f"{official}/{name}/mcp")
    reports: list[float] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        reports.append(done)

    async def main() -> Any:
        async with create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as http:
            url = f"http://127.0.0.1:{server.port}{path_of(server)}/remote/far"
            async with Client(streamable_http_client(url, http_client=http), mode=era) as client:
                assert "add" in [each.name for each in (await client.list_tools()).tools]
                await client.call_tool("count", {"of": 3}, progress_callback=note)
                return await client.call_tool("add", {"a": 1, "b": 2})

    assert asyncio.run(main()).structured_content == {"total": 3}
    assert reports == [1, 2, 3]


def test_other_processes_see_what_one_has_fetched(
    site: Callable[..., tuple[Server, str]],
) -> None:
    server, token = site("gunicorn, preloaded")
    server.shell(ENABLE)
    headers = {"Authorization": f"Bearer {token}"}

    async def main() -> set[bool]:
        seen = set[bool]()
        latest = time.monotonic() + 20
        # New connections, which the two workers take in turns; each looks once a second.
        while seen != {True} and time.monotonic() < latest:
            seen = set()
            for _ in range(12):
                async with create_mcp_http_client(headers=headers) as http:
                    url = f"http://127.0.0.1:{server.port}/mcp"
                    client = Client(streamable_http_client(url, http_client=http))
                    async with client as opened:
                        names = [each.name for each in (await opened.list_tools()).tools]
                        seen.add("far_add" in names)
        return seen

    assert asyncio.run(main()) == {True}


class Endless:
    """Events until the client has gone, and how many clients have."""

    def __init__(self) -> None:
        self.begun, self.gone = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, received: Received, handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        self.begun.release()
        try:
            begin(handler)
            while True:
                handler.wfile.write(chunk(event(NOTICE)))
                threading.Event().wait(0.1)
        except OSError:
            pass
        finally:
            self.gone.release()


@pytest.fixture
def endless() -> Iterator[tuple[Endless, str]]:
    with open_desk() as desk:
        desk.raw = writing = Endless()
        yield writing, desk.url


def request_through(server: Server, token: str) -> bytes:
    """Return the bytes of a call through the site."""
    client = MCPClient()
    message = client.message("tools/call", name="forecast", arguments={})
    body = json.dumps(message)
    headers = {
        **client.mirrored(message),
        "Host": "127.0.0.1",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {token}",
        "Content-Length": str(len(body)),
    }
    lines = [f"{name}: {value}" for name, value in headers.items()]
    path = f"{path_of(server)}/remote/far"
    return "\r\n".join([f"POST {path} HTTP/1.1", *lines, "", body]).encode()


async def leave(server: Server, request: bytes, after: int) -> None:
    """Close the connection to the site after some events."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    await writer.drain()
    try:
        for _ in range(after):
            await reader.readuntil(b"data: ")
    except asyncio.IncompleteReadError as error:
        raise AssertionError(error.partial) from error
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.django_db
def test_many_streams_to_a_server_leave_nothing_behind(
    site: Callable[..., tuple[Server, str]],
    endless: tuple[Endless, str],
    kind: str,
    tmp_path: Path,
) -> None:
    writing, url = endless
    # The threads of gunicorn are its limit, so that further requests wait.
    many = 4 if "gunicorn" in kind else STREAMS
    server, token = site(kind, url, SERVED_CALLS="1000")
    request = request_through(server, token)

    async def round(number: int) -> None:
        left = (leave(server, request, each % 4) for each in range(number))
        await asyncio.gather(*left)
        begun = 0
        while writing.begun.acquire(blocking=False):
            begun += 1
        for _ in range(begun):
            assert await asyncio.to_thread(writing.gone.acquire, timeout=30)

    async def state() -> tuple[int, int, int]:
        found = await census(server)
        files = Path(f"/proc/{server.process.pid}/fd")
        # SQLite keeps the files of closed connections, and uses them again.
        sockets = 0
        for each in files.iterdir():
            # Some are closed meanwhile.
            with suppress(FileNotFoundError):
                sockets += str(each.readlink()).startswith("socket:")
        return found["threads"], found["tasks"], sockets

    async def main() -> None:
        await round(min(many, 20))
        before = await state()
        for _ in range(10 if "gunicorn" in kind else 1):
            await round(many)
        latest = time.monotonic() + 15
        while True:
            after = await state()
            is_settled = all(one <= other + 2 for one, other in zip(after, before, strict=True))
            if is_settled or time.monotonic() > latest:
                break
            await asyncio.sleep(0.5)
        assert is_settled, (before, after)

    asyncio.run(main())
    assert "Traceback" not in (tmp_path / "log").read_text()
