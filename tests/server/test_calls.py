"""Calls in process, without HTTP, made as a client's call is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser, Group

from mcp_bridge import Context, ToolError
from mcp_bridge.features import Client
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol import Answers, CallToolResult, InputRequiredResult, UnknownToolError
from mcp_bridge.registry.registry import registry
from mcp_bridge.server.perform import acall, call, call_named
from mcp_bridge.server.server import MCPServer
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import serve
from tests.support.confirming import FORM, RUNS, YES, wipe
from tests.support.serving import served


def write(name: str) -> str:
    """Write a group."""
    Group.objects.create(name=name)
    if name == "refused":
        raise ToolError("Not this one.")
    return name


async def awrite(name: str) -> str:
    """Write a group, in a coroutine."""
    await Group.objects.acreate(name=name)
    return name


def outcomes() -> list[str]:
    return list(ToolCallRecord.objects.order_by("pk").values_list("outcome", flat=True))


def test_call_is_checked_run_and_recorded(user: Any, settings: Any) -> None:
    serve(settings, write)
    tool, context = served("write"), Context(user=user)
    done = call(tool, {"name": "staff"}, context)
    assert isinstance(done, CallToolResult)
    assert done.structured_content == {"result": "staff"}
    for arguments in ({"name": "refused"}, {"name": 5}, {}):
        result = call(tool, arguments, context)
        assert isinstance(result, CallToolResult)
        assert result.is_error
    assert outcomes() == ["succeeded", "failed", "refused", "refused"]
    assert list(Group.objects.values_list("name", flat=True)) == ["staff"]


@pytest.mark.django_db(transaction=True)
def test_coroutine_is_awaited(user: Any, settings: Any) -> None:
    serve(settings, write, awrite)
    for name in ("write", "awrite"):
        result: Any = async_to_sync(acall)(served(name), {"name": name}, Context(user=user))
        assert result.structured_content == {"result": name}
    assert outcomes() == ["succeeded", "succeeded"]
    ToolCallRecord.objects.all().delete()


def test_tool_is_found_only_by_permitted_callers(user: Any, settings: Any) -> None:
    serve(settings, write)
    result = call_named(MCPServer(), "write", {"name": "staff"}, Context(user=user))
    assert isinstance(result, CallToolResult)
    with pytest.raises(UnknownToolError):
        call_named(MCPServer(), "write", {"name": "x"}, Context(user=AnonymousUser()))
    assert outcomes() == ["succeeded", "refused"]


def test_question_is_returned_as_a_result(user: Any, settings: Any) -> None:
    RUNS.clear()
    serve(settings, wipe, confirm=True)
    registry.forget()
    tool = MCPServer().snapshot.tools["wipe"]
    context = Context(user=user, client=Client(capabilities=FORM))
    question = call(tool, {"name": "all"}, context)
    assert isinstance(question, InputRequiredResult)
    result = call(tool, {"name": "all"}, context, Answers(question.state, YES))
    assert isinstance(result, CallToolResult)
    assert (result.is_error, RUNS) == (False, [("all", 1)])


# MCP 2026-07-28, "_meta": labels separated by dots, a slash, and a name.
META_KEY = re.compile(
    r"([a-z]([a-z0-9-]*[a-z0-9])?\.)*[a-z]([a-z0-9-]*[a-z0-9])?/[a-z0-9]([\w.-]*[a-z0-9])?", re.I
)


@pytest.mark.requirement("meta.own-keys")
def test_own_keys_of_meta_follow_the_rules_of_mcp(user: Any, settings: Any) -> None:
    def add(numbers: list[int]) -> int:
        """Add up."""
        return sum(numbers)

    settings.MCP_BRIDGE = {"THROTTLE_RATES": {"tools": "2/min"}}
    serve(settings, add, read_only=True)
    client = MCPClient(user=user)
    found: set[str] = set()
    for numbers in ([1], "x", [1]):
        found |= client.call_tool("add", {"numbers": numbers})["_meta"].keys()
    assert len(found) == 3
    assert [key for key in found if not META_KEY.fullmatch(key)] == []
