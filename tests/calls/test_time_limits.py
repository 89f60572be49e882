"""A coroutine with its own time limit under ASGI: an error result that delays no other call."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from django.contrib.auth.models import Group

from mcp_bridge import ToolError, mcp_tool
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.records.rows import flush
from mcp_bridge.testing.serving import serve
from tests.support import lane
from tests.support.asgi import posted

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True, params=[False, True], ids=["django", "direct lane"])
def application(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(lane, "IS_ON", True)


async def told() -> None:
    """Write a group, wait, and raise a ToolError after a timeout."""
    await Group.objects.acreate(name="written")
    try:
        async with asyncio.timeout(0.3):
            await asyncio.sleep(60)
    except TimeoutError:
        raise ToolError("The archive took too long: ask for fewer days.") from None


async def untold() -> None:
    """Write a group, and wait."""
    await Group.objects.acreate(name="written")
    async with asyncio.timeout(0.3):
        await asyncio.sleep(60)


async def ping() -> str:
    """Answer at once."""
    return "here"


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (told, "The archive took too long: ask for fewer days."),
        (untold, "The tool untold failed: the site's log says why under the reference "),
    ],
)
def test_timed_out_coroutine_does_not_block_other_calls(
    function: Any, text: str, settings: Any
) -> None:
    server = serve(settings, function, public=True, asynchronous=True)
    # It only reads, and its record is deferred, because every write waits for an SQLite file.
    settings.MCP_BRIDGE = {"AUDIT": {"WRITE": "together"}}
    server.register_procedure(mcp_tool(public=True, read_only=True)(ping))

    async def main() -> tuple[bytes, bytes, bool]:
        slow = asyncio.ensure_future(posted(function.__name__))
        await asyncio.sleep(0.05)
        other = await posted("ping")
        is_waiting = not slow.done()
        return other, await slow, is_waiting

    other, answer, is_waiting = asyncio.run(main())
    assert is_waiting
    assert not json.loads(other)["result"]["isError"]
    result = json.loads(answer)["result"]
    assert result["isError"]
    assert result["content"][0]["text"].startswith(text)
    # Nothing of it is left.
    assert not Group.objects.exists()
    flush()
    assert ToolCallRecord.objects.get(tool=function.__name__).outcome == "failed"
    assert not json.loads(asyncio.run(posted("ping")))["result"]["isError"]
