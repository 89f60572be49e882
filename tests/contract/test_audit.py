"""Every call and every refusal leaves one record and sends signals."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.utils import timezone

from mcp_bridge.checks.settings import check_settings
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.models.outcomes import ErrorCode
from mcp_bridge.records.repeats import refusals
from mcp_bridge.signals import (
    tool_call_finished,
    tool_call_refused,
    tool_call_started,
    tools_changed,
)
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.support.recording import look, record, write
from tests.support.serving import set_tool
from tests.support.values import dumps


@pytest.mark.off_rest
@pytest.mark.off_stdio
def test_calls_are_recorded(client: CheckedClient, user: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "full"}}
    serve(settings, look)
    client.call_tool("look", {"word": "ä"})
    found = record()
    assert (found.tool, found.user, found.user_name) == ("look", user, "ada")
    assert (found.outcome, found.error_code, found.reference) == ("succeeded", "", "")
    assert (found.revision, found.remote_address) == (client.revision.version, "127.0.0.1")
    said = "mcp_bridge.testing" if client.revision.modern else ""
    assert (found.client_name, found.client_version) == (said, said and "1")
    assert json.loads(found.arguments) == {"word": "ä"}
    assert found.arguments_bytes == len('{"word":"ä"}'.encode())
    assert found.result_bytes is not None
    assert found.result_bytes > 0
    assert found.duration_ms is not None
    assert 0 <= found.duration_ms < 60_000
    assert abs(timezone.now() - found.started_at) < timedelta(minutes=1)


def test_coroutine_record_belongs_to_the_callers_transaction(
    modern: CheckedClient, settings: Any
) -> None:
    """If the caller has a transaction, as here, the record is rolled back with it."""

    async def look(word: str = "") -> str:
        """Say a word."""
        return word

    serve(settings, look, read_only=True)
    with transaction.atomic():
        modern.call_tool("look")
        assert record().tool == "look"
        transaction.set_rollback(True)
    assert not ToolCallRecord.objects.exists()


def test_credential_is_named_but_not_stored(user: Any, settings: Any) -> None:
    serve(settings, look)
    _, secret = Token.objects.issue(user=user, name="My laptop")
    CheckedClient(token=secret).call_tool("look")
    assert record().credential == "My laptop"
    assert secret not in str(ToolCallRecord.objects.values())


@pytest.mark.parametrize(
    ("set_up", "name", "arguments", "error_code"),
    [
        ({}, "nothing", {}, "unknown_tool"),
        ({"permissions": "auth.add_user"}, "look", {}, "forbidden"),
        ({}, "look", {"word": 1}, "invalid"),
        ({}, "look", [], "invalid"),
        ({}, 7, {}, "invalid"),
        ({"enabled": False}, "look", {}, "disabled"),
        ({"confirm": True}, "look", {}, "withheld"),
    ],
)
def test_refusal_is_recorded_with_its_reason(
    set_up: dict[str, Any],
    name: Any,
    arguments: Any,
    error_code: str,
    client: CheckedClient,
    settings: Any,
) -> None:
    enabled = set_up.pop("enabled", True)
    settings.MCP_BRIDGE = {"NEW_TOOLS": "disabled" if "confirm" in set_up else "enabled"}
    serve(settings, look, **set_up)
    if not enabled:
        set_tool("look", enabled=False)
    body = client.message("tools/call", name=name, arguments=arguments)
    headers = client.mirrored({**body, "params": {**body["params"], "arguments": {}}})
    answer = client.send(dumps(body), {k: v for k, v in headers.items() if v != 7}).json()
    found = record()
    assert (found.outcome, found.error_code) == ("refused", error_code)
    assert (found.user_name, found.duration_ms) == ("ada", None)
    if error_code != "invalid":
        assert answer["error"]["message"] == f"Unknown tool: {name}"
        assert found.tool == name
    set_up["enabled"] = enabled


def test_hidden_tool_answer_is_byte_identical(user: Any, settings: Any) -> None:
    answers, counts = set(), set()
    for set_up in ({}, {"permissions": "auth.add_user"}, {"enabled": False}):
        client = CheckedClient(user=user)
        serve(settings, look, **{k: v for k, v in set_up.items() if k != "enabled"})
        name = "look" if set_up else "loop"
        set_tool("look", enabled=set_up.get("enabled", True))
        with pytest.raises(MCPError):
            client.call_tool(name)
        answers.add(client.response.content.replace(name.encode(), b"NAME"))
        counts.add(ToolCallRecord.objects.latest("pk").error_code)
    assert len(answers) == 1
    assert counts == {"unknown_tool", "forbidden", "disabled"}


@pytest.mark.parametrize("secret", [None, "mcp_wrong"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_request_without_a_credential_is_recorded(
    secret: str | None, asynchronous: bool, settings: Any
) -> None:
    serve(settings, look, asynchronous=asynchronous)
    refusals.clear()
    client = CheckedClient(token=secret)
    body = client.message("tools/call", name="look")
    assert client.send(dumps(body), client.mirrored(body)).status_code == 401
    found = record()
    assert (found.outcome, found.error_code, found.tool) == ("refused", "unauthenticated", "look")
    refusals.clear()
    settings.MCP_BRIDGE = {"AUDIT": {"UNAUTHENTICATED": False}}
    assert client.send(dumps(body), client.mirrored(body)).status_code == 401
    assert record() == found


def test_repeated_unauthenticated_requests_are_recorded_once_a_minute(
    settings: Any,
) -> None:
    refusals.clear()
    serve(settings, look)
    heard: list[str] = []

    def hear(error_code: str, **kwargs: Any) -> None:
        heard.append(error_code)

    tool_call_refused.connect(hear)
    try:
        for secret in (None, "mcp_wrong", "mcp_other", None, "mcp_wrong"):
            client = CheckedClient(token=secret)
            client.headers["User-Agent"] = f"agent of {secret}"
            for name in ("one", "two", "three"):
                body = client.message("tools/call", name=name)
                assert client.send(dumps(body), client.mirrored(body)).status_code == 401
    finally:
        tool_call_refused.disconnect(hear)
    # Changes of what the client claims about itself do not create another row.
    assert (record().times, record().error_code) == (15, "unauthenticated")
    assert heard == ["unauthenticated"] * 15


def test_nothing_is_recorded_if_audit_is_off(modern: CheckedClient, settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": None}
    serve(settings, look)
    modern.call_tool("look")
    with pytest.raises(MCPError):
        modern.call_tool("nothing")
    assert not ToolCallRecord.objects.exists()


@pytest.mark.parametrize(
    ("read_only", "audit", "told"),
    [
        (False, {}, ["started"]),
        (True, {}, []),
        (True, {"WRITE_AHEAD": True}, ["started"]),
    ],
)
def test_writing_tools_are_recorded_before_they_run(
    read_only: bool, audit: Any, told: list[str], modern: CheckedClient, settings: Any
) -> None:
    def outcomes() -> list[str]:
        """Return the recorded outcomes."""
        return list(ToolCallRecord.objects.values_list("outcome", flat=True))

    settings.MCP_BRIDGE = {"AUDIT": audit}
    serve(settings, outcomes, read_only=read_only)
    assert modern.call_tool("outcomes")["structuredContent"] == {"result": told}
    assert outcomes() == ["succeeded"]


class Heard:
    """A receiver of the signals of calls that always fails."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, dict[str, Any]]] = []

    def __call__(self, signal: Any, sender: Any, **kwargs: Any) -> None:
        self.told.append((signal, kwargs))
        raise RuntimeError("a receiver's own trouble")


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("audit", [{}, None])
def test_signals_are_sent_despite_failing_receivers(
    audit: Any, asynchronous: bool, modern: CheckedClient, settings: Any
) -> None:
    settings.MCP_BRIDGE = {"AUDIT": audit}
    serve(settings, write, asynchronous=asynchronous)
    heard = Heard()
    signals = (tool_call_started, tool_call_finished, tool_call_refused)
    for signal in signals:
        signal.connect(heard)
    try:
        assert modern.call_tool("write", {"then": "done"})["isError"] is False
        assert modern.call_tool("write", {"then": "break"})["isError"] is True
        assert modern.call_tool("write", {"then": 1})["isError"] is True
        with pytest.raises(MCPError):
            modern.call_tool("nothing")
    finally:
        for signal in signals:
            signal.disconnect(heard)
    started, finished, refused_ = signals
    kinds = [signal for signal, _ in heard.told]
    assert kinds == [started, finished, started, finished, refused_, refused_]
    assert heard.told[0][1]["call"].arguments == {"then": "done"}
    ends = [heard.told[each][1] for each in (1, 3)]
    assert [(each["outcome"], each["error_code"]) for each in ends] == [
        ("succeeded", ""),
        ("failed", "internal_error"),
    ]
    assert all(each["duration"] > 0 and each["result_bytes"] > 0 for each in ends)
    why = [(told["error_code"], told["name"]) for _, told in heard.told[4:]]
    assert why == [("invalid", "write"), ("unknown_tool", "nothing")]
    assert heard.told[4][1]["tool"].name == "write"
    assert heard.told[5][1]["tool"] is None


@pytest.mark.parametrize("signal", [tools_changed, tool_call_refused])
def test_receivers_are_called_despite_errors_of_others(
    signal: Any, modern: CheckedClient, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Also if a receiver lacks a name, which Django's own signals cannot log."""
    refusals.clear()
    serve(settings, look)
    heard: list[Any] = []
    partly, failing = partial(setattr, "x"), Heard()

    def hear(**told: Any) -> None:
        heard.append(told)

    for receiver in (partly, failing, hear):
        signal.connect(receiver)
    try:
        set_tool("look", enabled=False)
        with pytest.raises(MCPError):
            modern.call_tool("look")
    finally:
        for receiver in (partly, failing, hear):
            assert signal.disconnect(receiver)
    assert len(heard) == len(failing.told)
    assert heard
    logged = [each for each in caplog.records if each.name == "mcp_bridge.signals"]
    assert len(logged) == 2 * len(heard)


@pytest.mark.parametrize(
    ("age", "left"), [("90d", 2), ("12w", 1), ("1h", 1), ("100000s", 1), ("999999w", None)]
)
def test_old_records_are_pruned(age: str, left: int | None, capsys: Any) -> None:
    now = timezone.now()
    for days in (0, 89):
        ToolCallRecord.objects.create(outcome="succeeded", started_at=now - timedelta(days=days))
    ToolCallRecord.objects.create(outcome="started", started_at=now - timedelta(days=91))
    if left is None:
        with pytest.raises(CommandError, match="Invalid duration"):
            call_command("mcp_audit", "prune", older_than=age)
        return
    call_command("mcp_audit", "prune", older_than=age)
    assert ToolCallRecord.objects.count() == left
    assert f"{3 - left} records" in capsys.readouterr().out


def test_old_started_records_are_reaped() -> None:
    now = timezone.now()
    for minutes, outcome in [(1, "started"), (70, "started"), (70, "succeeded")]:
        begun = now - timedelta(minutes=minutes)
        ToolCallRecord.objects.create(outcome=outcome, started_at=begun)
    call_command("mcp_audit", "reap")
    outcomes = ToolCallRecord.objects.order_by("pk").values_list("outcome", flat=True)
    assert list(outcomes) == ["started", "unknown", "succeeded"]


def test_every_error_code_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "operate" / "call-log.md").read_text()
    assert [code for code in ErrorCode.values if f"`{code}`" not in text] == []


def test_deleted_users_name_is_kept(user: Any, settings: Any) -> None:
    serve(settings, look)
    MCPClient(user=user).call_tool("look")
    user.delete()
    assert (record().user, record().user_name) == (None, "ada")


@pytest.mark.parametrize(
    ("audit", "count"),
    [
        (None, 0),
        ({"ARGUMENTS": "full", "REQUIRED": True, "SENSITIVE_NAMES": ["iban"]}, 0),
        ("full", 1),
        ({"ARGUMENTS": "all", "REQUIRED": 1, "MAX_ARGUMENTS_BYTES": 255, "RETENTION": 1}, 4),
        ({"SENSITIVE_NAMES": "iban"}, 1),
        ({"SENSITIVE_NAMES": 5}, 1),
    ],
)
def test_invalid_setting_is_reported(audit: Any, count: int, settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": audit}
    found = check_settings()
    assert len(found) == count
    for message in found:
        assert message.id == (
            "mcp_bridge.E001" if "Unknown key" in message.msg else "mcp_bridge.E002"
        )
    assert all("AUDIT" in message.msg for message in found)
