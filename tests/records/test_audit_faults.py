"""Each call leaves one record, for any input and for any failure while it is written."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import DatabaseError, connection
from pydantic import Field, SecretStr

from mcp_bridge import Context
from mcp_bridge.features import Client
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.protocol import LATEST, Request
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.records.recorder import refuse
from mcp_bridge.registry.registry import registry
from mcp_bridge.server.server import MCPServer
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.calling import handled, handled_on_loop
from tests.support.recording import awrite, look, record, write
from tests.support.serving import set_tool
from tests.support.values import dumps

MARKER = "MARKER-7f3a"


@pytest.mark.parametrize(
    ("then", "outcome", "error_code"),
    [
        ("done", "succeeded", ""),
        ("refuse", "failed", "tool_error"),
        ("break", "failed", "internal_error"),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("atomic", [False, True], ids=["", "ATOMIC_REQUESTS"])
@pytest.mark.parametrize("function", [write, awrite])
@pytest.mark.django_db(transaction=True)
def test_record_remains_if_the_tools_writes_are_undone(
    function: Any,
    atomic: bool,
    asynchronous: bool,
    then: str,
    outcome: str,
    error_code: str,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if function is awrite and then == "break":
        pytest.skip("the same as a refusal")
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", atomic)
    serve(settings, function, asynchronous=asynchronous)
    client = CheckedClient(user=get_user_model().objects.create_user("ada"))
    result = client.call_tool(function.__name__, {"then": then})
    assert (record().outcome, record().error_code) == (outcome, error_code)
    assert bool(record().reference) == (error_code == "internal_error")
    assert record().reference in text_of(result)
    assert Group.objects.filter(name="written").exists() is (then == "done")


DEEP: Any = []
for _ in range(5000):
    DEEP = [DEEP]

POISON = {
    "NUL": "a\0b",
    "surrogate": "a\ud800b",
    "long": "x" * 200,
    "NaN": math.nan,
    "infinity": -math.inf,
    "many digits": 10**5000,
    "deep": DEEP,
    "object": object(),
    "bytes": b"\xff\0",
    "2**31": 2**31,
    "2**63": 2**63,
    "10**400, 900 deep": json.loads("[" * 900 + "1" + "0" * 400 + "]" * 900),
    "20 MB": "x" * 20_000_000,
    "key": {"a\0\ud800" * 100: {"\0": 1}},
}
# The largest takes five seconds.
KINDS = [pytest.param(kind, marks=[pytest.mark.alone] * (kind == "20 MB")) for kind in POISON]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kept", ["none", "redacted", "full"])
def test_no_value_breaks_the_record(kept: str, kind: str, user: Any, settings: Any) -> None:
    value = POISON[kind]
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": kept}}
    serve(settings, look)
    registry.forget()
    tool = registry.snapshot.tools.get("look")
    assert tool is not None
    said = {"name": value, "version": value}
    auth = type("Auth", (), {"name": value})()
    user.get_username = lambda: value
    context = Context(
        user=user, auth=auth, client=Client(info=said), remote_address=value, user_agent=value
    )
    taking = replace(tool, check=lambda arguments: {})
    server = MCPServer(snapshot=type(registry.snapshot)([taking]))
    params = {"name": "look", "arguments": {"value": value, "values": [value, value]}}
    message = Request(id=1, method="tools/call", params=params, revision=LATEST)
    result = handled(server, message, context)
    assert isinstance(result, CallToolResult)
    assert not result.is_error
    found = record()
    assert found.outcome == "succeeded"
    assert len(found.arguments.encode()) <= 16 * 1024
    assert bool(found.arguments) == (kept != "none")
    refuse("unknown_tool", value, None, context)
    assert ToolCallRecord.objects.count() == 2


# As JSON text: values that a call may have, and others (400), for any tool.
SENDABLE = {
    "NUL": r'"a\u0000b"',
    "long": f'"{"x" * 200}"',
    "very long": f'"{"x" * 900_000}"',
    "2**31": str(2**31),
    "2**63": str(2**63),
    "2**64, negative": str(-(2**64)),
    "10**300": "1" + "0" * 300,
    "60 deep": "[" * 58 + "]" * 58,
    "names": json.dumps({"a\0" * 100: {"\0": 1}, "": "\x1b[31m\r\n"}),
}
UNSENDABLE = {
    "surrogate": r'"a\ud800b"',
    "NaN": "NaN",
    "infinity": "-Infinity",
    "10**5000": "1" + "0" * 5000,
    "5000 deep": "[" * 5000 + "]" * 5000,
}


@pytest.mark.parametrize("kept", ["none", "redacted", "full"])
def test_every_sendable_value_is_answered_and_recorded_once(
    kept: str, modern: CheckedClient, legacy: CheckedClient, settings: Any
) -> None:
    def take(value: Any) -> str:
        """Take anything."""
        return "taken"

    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": kept}}
    serve(settings, take)
    for client in (modern, legacy):
        message = client.message("tools/call", name="take", arguments={"value": "HERE"})
        headers, body = client.mirrored(message), dumps(message).decode()
        for kind, value in [*SENDABLE.items(), *UNSENDABLE.items()]:
            ToolCallRecord.objects.all().delete()
            answer = client.send(body.replace('"HERE"', value).encode(), headers)
            expected = (200, 1) if kind in SENDABLE else (400, 0)
            assert (answer.status_code, ToolCallRecord.objects.count()) == expected, kind
            if kind in SENDABLE:
                # No text can hold it, but the sent value may be kept.
                has_nul = kind in ("NUL", "names")
                outcome = "refused" if has_nul else "succeeded"
                assert answer.json()["result"]["isError"] is has_nul, kind
                assert (record().outcome, record().arguments != "") == (outcome, kept != "none")
        for value in ('"a\\u0000b"', json.dumps("x" * 200), json.dumps("\x1b[0m\r\n\u202e")):
            ToolCallRecord.objects.all().delete()
            named = {"Mcp-Name": f"=?base64?{b64encode(json.loads(value).encode()).decode()}?="}
            sent = {**headers, "User-Agent": "x" * 999} | (named if "Mcp-Name" in headers else {})
            client.send(body.replace('"take"', value).encode(), sent)
            assert (record().outcome, record().error_code) == ("refused", "unknown_tool")


def keep(key: SecretStr, door: Annotated[str, Field(json_schema_extra={"writeOnly": True})]) -> int:
    """Take secrets."""
    return len(door)


@pytest.mark.parametrize("kept", ["redacted", "full"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"key": MARKER, "door": MARKER},
        # Refused, and by a caller who does not see it.
        {"key": MARKER, "door": 1},
        {"key": [MARKER], "more": {"door": MARKER}},
    ],
)
@pytest.mark.parametrize("enabled", [True, False])
def test_values_marked_as_secret_are_never_kept(
    enabled: bool, arguments: Any, kept: str, modern: CheckedClient, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": kept}}
    serve(settings, keep)
    set_tool("keep", enabled=enabled)
    body = modern.message("tools/call", name="keep", arguments=arguments)
    modern.send(dumps(body), modern.mirrored(body))
    assert "[redacted]" in record().arguments
    assert MARKER not in str(list(ToolCallRecord.objects.values()))


def failing(model: str, verb: str) -> Callable[..., Any]:
    """Make statements of that kind on a table fail."""

    def execute(run: Callable[..., Any], sql: str, *args: Any) -> Any:
        if sql.startswith(verb) and f'"mcp_bridge_{model}"' in sql:
            raise DatabaseError("no space is left")
        return run(sql, *args)

    return execute


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_unwritten_record_stops_only_writes_that_require_it(
    asynchronous: bool,
    read_only: bool,
    required: bool,
    modern: CheckedClient,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"REQUIRED": required}}
    serve(settings, write, asynchronous=asynchronous, read_only=read_only)
    with connection.execute_wrapper(failing("toolcallrecord", "INSERT")):
        result = modern.call_tool("write", {"then": "done"})
    stopped = required and not read_only
    assert result["isError"] is stopped
    assert Group.objects.filter(name="written").exists() is not stopped
    errors = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert [each.name for each in errors] == ["mcp_bridge.records", "mcp_bridge.records.lost"]
    outcome = json.loads(errors[1].getMessage())["outcome"]
    assert outcome == ("refused" if stopped else "succeeded")
    assert not ToolCallRecord.objects.exists()
    if stopped:
        assert "was not run" in text_of(result)


def test_unwritten_end_leaves_the_record_started(
    modern: CheckedClient, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"REQUIRED": True}}
    serve(settings, write)
    with connection.execute_wrapper(failing("toolcallrecord", "UPDATE")):
        assert modern.call_tool("write", {"then": "done"})["isError"] is False
    assert record().outcome == "started"
    assert "is lost" in caplog.text


@pytest.mark.parametrize("read_only", [False, True])
def test_client_that_disconnects_is_on_record(
    read_only: bool, transactional_db: None, settings: Any
) -> None:
    async def wait() -> None:
        if not read_only:
            await Group.objects.acreate(name="written")
        await asyncio.sleep(30)

    serve(settings, wait, public=True, read_only=read_only)
    registry.forget()
    server = MCPServer()
    context = Context(user=None, request=None, revision=LATEST)
    message = Request(id=1, method="tools/call", params={"name": "wait"}, revision=LATEST)

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handled_on_loop(server, message, context), timeout=0.3)

    async_to_sync(leave)()
    assert record().outcome == "cancelled"
    assert not Group.objects.exists()


@pytest.mark.parametrize(("then", "outcome"), [("done", "succeeded"), ("refuse", "failed")])
def test_finished_thread_is_recorded_after_its_client_disconnected(
    then: str, outcome: str, transactional_db: None, settings: Any
) -> None:
    def slowly(then: str) -> str:
        """Write a group, later."""
        time.sleep(0.3)
        return write(then)

    serve(settings, slowly, public=True)
    registry.forget()
    server, context = MCPServer(), Context(user=None, request=None, revision=LATEST)
    params = {"name": "slowly", "arguments": {"then": then}}
    message = Request(id=1, method="tools/call", params=params, revision=LATEST)

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handled_on_loop(server, message, context), timeout=0.1)

    async_to_sync(leave)()
    assert record().outcome == outcome
    assert (record().duration_ms or 0) > 250
    assert Group.objects.exists() is (then == "done")


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_tool_that_cancels_itself_has_failed(
    asynchronous: bool, modern: CheckedClient, settings: Any
) -> None:
    async def stop() -> None:
        """Wait for a cancelled future."""
        waiting = asyncio.ensure_future(asyncio.sleep(30))
        waiting.cancel()
        await waiting

    serve(settings, stop, asynchronous=asynchronous)
    assert modern.call_tool("stop")["isError"] is True
    assert (record().outcome, record().error_code) == ("failed", "internal_error")
