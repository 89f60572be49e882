"""Streams of live servers: official clients, clients that leave, and many at once."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.processes import test_end_of_servers
from tests.processes.test_end_of_servers import Server

start, database = test_end_of_servers.start, test_end_of_servers.database

KINDS = ("gunicorn, threads", "uvicorn", "uvicorn, direct")


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, start: Callable[[str], Server]) -> Server:
    return start(request.param)


def path_of(server: Server) -> str:
    return "/amcp" if "uvicorn" in str(server.process.args) else "/mcp"


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("tool", ["count", "acount"])
def test_official_client_receives_progress_in_time(server: Server, era: str, tool: str) -> None:
    arrived: list[tuple[float, float]] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        arrived.append((time.monotonic(), done))

    async def main() -> Any:
        async with create_mcp_http_client() as http:
            url = f"http://127.0.0.1:{server.port}{path_of(server)}"
            async with Client(streamable_http_client(url, http_client=http), mode=era) as client:
                return await client.call_tool(
                    tool, {"of": 3, "seconds": 0.3}, progress_callback=note
                )

    result = asyncio.run(main())
    assert result.structured_content == {"result": 3}
    assert [done for _, done in arrived] == [1, 2, 3]
    assert arrived[-1][0] - arrived[0][0] > 0.4


def request_of(server: Server, tool: str, **arguments: Any) -> bytes:
    """Return the bytes of a call that wants progress."""
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    lines = [
        f"POST {path_of(server)} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2025-11-25",
        "Connection: close",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", body]).encode()


async def census(server: Server) -> dict[str, int]:
    body = await whole(server, "census")
    found: dict[str, int] = json.loads(body[body.index(b"{") :])["result"]["structuredContent"]
    return found


async def whole(server: Server, tool: str, **arguments: Any) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request_of(server, tool, **arguments))
    found = await reader.read()
    writer.close()
    return found


async def leave(server: Server, tool: str, after: int, **arguments: Any) -> None:
    """Close the connection after some events."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request_of(server, tool, **arguments))
    await writer.drain()
    for _ in range(after):
        await reader.readuntil(b"data: ")
    if not after:
        await asyncio.sleep(0.3)
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.parametrize("tool", ["fill", "afill"])
def test_client_that_leaves_has_its_call_undone(server: Server, tool: str, after: int) -> None:
    async def main() -> None:
        await leave(server, tool, after, of=500)
        latest = time.monotonic() + 8
        while ("started" in dict(server.records()).values()) and time.monotonic() < latest:
            await asyncio.sleep(0.1)
        assert (await census(server))["groups"] == 0

    asyncio.run(main())
    assert (tool, "cancelled") in server.records()


def test_many_streams_leave_nothing_behind(server: Server) -> None:
    async def some(tool: str, number: int) -> list[bytes]:
        calls = (whole(server, tool, of=3, seconds=0.05) for _ in range(number))
        return await asyncio.gather(*calls)

    async def main() -> None:
        # As many at once as one caller may have.
        await some("count", 20)
        await some("acount", 20)
        before = await census(server)
        for tool in ("count", "acount"):
            for _ in range(5):
                for answer in await some(tool, 20):
                    assert b'"structuredContent":{"result":3}' in answer, answer
        latest = time.monotonic() + 5
        while (after := await census(server)) != before and time.monotonic() < latest:
            await asyncio.sleep(0.2)
        for name in ("threads", "tasks", "files"):
            assert after[name] <= before[name] + 2, (before, after)

    asyncio.run(main())


def listening(server: Server) -> bytes:
    """Return the bytes of a request to listen to changes."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"_meta": meta, "notifications": {"toolsListChanged": True}}
    message = {"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": params}
    body = json.dumps(message)
    lines = [
        f"POST {path_of(server)} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: subscriptions/listen",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", body]).encode()


async def message_of(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Return the next message of a stream."""
    await asyncio.wait_for(reader.readuntil(b"data: "), 15)
    found: dict[str, Any] = json.loads(await reader.readline())
    return found


def toggle(server: Server, name: str, enabled: bool) -> None:
    """Switch a tool in another process."""
    code = (
        "from mcp_bridge.models import ToolSetting\n"
        f"ToolSetting.objects.update_or_create(name={name!r}, defaults=dict(enabled={enabled}))"
    )
    server.shell(code)


@pytest.mark.parametrize("kind", ["uvicorn", "uvicorn, direct", "uvicorn, workers"])
def test_change_of_another_process_is_announced(start: Callable[[str], Server], kind: str) -> None:
    server = start(kind)

    async def main() -> None:
        opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(6)]
        for reader, writer in opened:
            writer.write(listening(server))
            acknowledged = await message_of(reader)
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        for enabled in (False, True):
            await asyncio.to_thread(toggle, server, "look", enabled)
            for reader, _ in opened:
                assert (await message_of(reader))["method"] == "notifications/tools/list_changed"
        for _, writer in opened:
            writer.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["uvicorn", "uvicorn, direct"])
def test_stop_of_the_server_ends_subscriptions(start: Callable[[str], Server], kind: str) -> None:
    server = start(kind)

    async def main() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(listening(server))
        await message_of(reader)
        server.process.send_signal(signal.SIGTERM)
        last = await message_of(reader)
        assert (last["id"], last["result"]["resultType"]) == (5, "complete")
        writer.close()

    asyncio.run(main())
    assert server.process.wait(15) in (0, -signal.SIGTERM)


@pytest.mark.parametrize("kind", ["uvicorn", "uvicorn, direct"])
def test_official_client_is_told_of_changes(start: Callable[[str], Server], kind: str) -> None:
    server = start(kind)

    async def main() -> None:
        async with create_mcp_http_client() as http:
            url = f"http://127.0.0.1:{server.port}{path_of(server)}"
            async with Client(streamable_http_client(url, http_client=http)) as client:
                names = {tool.name for tool in (await client.list_tools()).tools}
                async with client.listen(tools_list_changed=True) as changes:
                    await asyncio.to_thread(toggle, server, "look", False)
                    await asyncio.wait_for(anext(changes), 15)
                    now = {tool.name for tool in (await client.list_tools()).tools}
                assert names - now == {"look"}

    asyncio.run(main())
