"""
Follow tasks with FastMCP's client: ``python -m tests.clients.drivers.following URL TOKEN``.

Exits with an error if a call that becomes a task does not return its result, does not fail as
itself, or cannot be looked at and cancelled.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError

# Its import has every client follow tasks.
from fastmcp_tasks import call_tool_task


async def main(url: str, token: str) -> None:
    transport = StreamableHttpTransport(url, headers={"Authorization": f"Bearer {token}"})
    async with Client(transport) as client:
        imported = await client.call_tool("wire_import", {"copies": 30})
        expect(imported.structured_content["drafts"] == 30, imported)
        try:
            await client.call_tool("wire_import", {"copies": 0})
        except ToolError as error:
            expect("Say which story" in str(error), error)
        else:
            raise AssertionError("the failure of the tool is not shown")
        task = await call_tool_task(client, "wire_import", {"copies": 200})
        while not (status := await task.status()).status_message:
            expect(status.status == "working", status)
            await asyncio.sleep(0.2)
        await task.cancel()
        ended = await task.status()
        expect(ended.status == "cancelled", ended)
        print(f"a result, a failure, and one cancelled at {ended.status_message!r}")


def expect(condition: bool, found: Any) -> None:
    if not condition:
        raise AssertionError(found)


asyncio.run(main(*sys.argv[1:]))
