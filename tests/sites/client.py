"""Drive a site with the official client, by a plan on standard input; exit with 1 if it differs."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urljoin

from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import ElicitResult

PLAN = json.load(sys.stdin)
ASKED: list[str] = []


async def agree(_: Any, question: Any) -> ElicitResult:
    ASKED.append(question.message)
    return ElicitResult(action="accept", content={"confirm": True})


@asynccontextmanager
async def connected(user: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"{PLAN['scheme']} {PLAN['tokens'][user]}"}
    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(PLAN["url"], http_client=http)
        async with Client(transport, mode="auto", elicitation_callback=agree) as client:
            yield client


async def call(
    user: str, tool: str, arguments: dict[str, Any], contains: str, refused: bool = False
) -> None:
    async with connected(user) as client:
        result = await client.call_tool(tool, arguments)
    text = " ".join(getattr(block, "text", "") for block in result.content)
    assert contains in text, f"{tool} as {user}: {text}"
    assert result.is_error == refused, f"{tool} as {user}: {text}"


async def write(user: str, tool: str, arguments: dict[str, Any], address: str, seen: str) -> None:
    before = await read(user, address)
    assert seen not in before, f"before {tool}: GET {address} {before}"
    await call(user, tool, arguments, "")
    after = await read(user, address)
    assert seen in after, f"after {tool}: GET {address} {after}"


async def read(user: str, address: str) -> str:
    """Return the status and the body of an answer to a user with a session."""
    headers = {"Cookie": PLAN["sessions"][user], "Accept": "application/json"}
    async with create_mcp_http_client(headers=headers) as http:
        response = await http.get(urljoin(PLAN["url"], address))
    return f"{response.status_code} {response.text}"


async def main() -> None:
    for user, expected in PLAN["listed"].items():
        async with connected(user) as client:
            names = sorted(tool.name for tool in (await client.list_tools()).tools)
        listed = [name for name in names if not name.startswith(PLAN["own"])]
        assert listed == expected, f"{user} sees {listed}"
    for planned in PLAN["calls"]:
        await call(*planned)
    assert not ASKED
    for number, planned in enumerate(PLAN["confirmed"], 1):
        await call(*planned)
        assert len(ASKED) == number, ASKED
    for planned in PLAN["refused"]:
        await call(*planned, refused=True)
    for planned in PLAN["writes"]:
        await write(*planned)


asyncio.run(main())
