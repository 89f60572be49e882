"""Tools for the tests of records, and the record that one of them left."""

from __future__ import annotations

from django.contrib.auth.models import Group

from mcp_bridge import ToolError
from mcp_bridge.audit.rows import flush
from mcp_bridge.models import ToolCallRecord


def record() -> ToolCallRecord:
    """The one record there is."""
    flush()
    return ToolCallRecord.objects.get()


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
