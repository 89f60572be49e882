"""Tools for the tests of records, and the record that one of them left."""

from __future__ import annotations

from django.contrib.auth.models import Group

from mcp_bridge import Context, ToolError
from mcp_bridge.features import Tool
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.records.rows import flush
from mcp_bridge.server.perform import call


def record() -> ToolCallRecord:
    """Return the only record."""
    flush()
    return ToolCallRecord.objects.get()


def call_in_script(times: int) -> None:
    """Call a tool that only reads, which leaves a record each time, without a client or a site."""
    tool = Tool(
        name="look",
        description="",
        input_schema={"type": "object"},
        check=dict,
        invoke=lambda call: 1,
        encode=lambda value: CallToolResult.error("no"),
        annotations={"readOnlyHint": True},
    )
    for _ in range(times):
        call(tool, {}, Context(user=None))


def look(word: str = "") -> str:
    """Say a word."""
    return word


def write(then: str) -> str:
    """Write a group, and end in some way."""
    Group.objects.create(name="written")
    if then == "refuse":
        raise ToolError("Written, then refused.")
    if then == "break":
        raise RuntimeError("written, then broken")
    return then


async def awrite(then: str) -> str:
    """Write a group in a coroutine, and end in some way."""
    await Group.objects.acreate(name="written")
    if then != "done":
        raise ToolError("Written, then refused.")
    return then
