"""A record has the error that the model read and the pointers of bad arguments, and no secrets."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError
from pydantic import Field, SecretStr

from mcp_bridge import ToolError
from mcp_bridge.admin.call_records import as_json
from mcp_bridge.models import PendingCall, ToolCallRecord
from mcp_bridge.records import rows
from mcp_bridge.testing import MCPClient, MCPError
from mcp_bridge.testing.serving import serve
from tests.support.recording import look, record

pytestmark = pytest.mark.django_db(transaction=True)
WORD = "Hunter2-Überraschung"


def fail(
    text: str,
    key: SecretStr,
    door: Annotated[Any, Field(json_schema_extra={"writeOnly": True})] = "",
) -> None:
    """Fail with a text that quotes its secrets."""
    secret = key.get_secret_value()
    raise ToolError(text.format(key=secret, upper=secret.upper(), cut=secret[:7], door=door))


@pytest.fixture
def caller(user: Any) -> MCPClient:
    return MCPClient(user=user)


def test_the_text_that_the_model_read_is_kept(caller: MCPClient, settings: Any) -> None:
    serve(settings, fail)
    settings.MCP_BRIDGE = {}
    caller.call_tool("fail", {"text": "There is no article 7.", "key": "k"})
    found = record()
    assert (found.outcome, found.error_code) == ("failed", "tool_error")
    assert (found.error_text, found.invalid_arguments) == ("There is no article 7.", "")
    assert found.arguments == ""


def test_the_pointers_of_bad_arguments_are_kept(caller: MCPClient, settings: Any) -> None:
    serve(settings, look)
    result = caller.call_tool("look", {"word": 1, "a/b\u202e": 2})
    found = record()
    assert sorted(found.invalid_arguments.splitlines()) == ["/a~1b\ufffd", "/word"]
    assert found.error_text.split()[0] in result["content"][0]["text"]
    assert found.error_text.isprintable()
    (line,) = json.loads("".join(as_json([tuple(_columns(found))])))
    assert sorted(line["invalid_arguments"]) == ["/a~1b\ufffd", "/word"]


def _columns(found: ToolCallRecord) -> list[Any]:
    from mcp_bridge.admin.call_records import FIELDS

    return [getattr(found, name) for name in FIELDS]


@pytest.mark.parametrize(
    "text",
    [
        "The key {key} opens nothing.",
        "No {upper}.",
        "It begins with {cut}… and opens nothing.",
        "password={key}",
        "Quoted: '{key}'",
        "Door {door} is closed.",
    ],
)
@pytest.mark.parametrize("kept", ["none", "redacted", "full"])
def test_no_secret_of_the_arguments_is_in_the_text(
    text: str, kept: str, caller: MCPClient, settings: Any
) -> None:
    serve(settings, fail)
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": kept}}
    caller.call_tool("fail", {"text": text, "key": WORD, "door": {"a": ["Sesame-open", 4711]}})
    said = record().error_text.casefold()
    assert "[redacted]" in said
    for secret in ("hunter", "überr", "raschung", "sesame", "4711"):
        assert secret not in said.replace(text.casefold(), "")


def test_a_token_in_an_error_is_hidden(caller: MCPClient, settings: Any) -> None:
    def leak() -> None:
        """Tell a token."""
        raise ToolError("Bearer mcp_" + "a1" * 30 + " is not known")

    serve(settings, leak)
    caller.call_tool("leak")
    assert "a1a1" not in record().error_text


def test_a_long_text_is_cut_and_one_line(caller: MCPClient, settings: Any) -> None:
    serve(settings, fail)
    caller.call_tool("fail", {"text": "One\nline.\x7f\u202e " * 400, "key": "k"})
    found = record().error_text
    assert len(found) <= 500
    assert found.startswith("One line.\ufffd\ufffd One")
    assert found.endswith("…")
    assert found.isprintable()


@pytest.mark.parametrize("audit", [{"ERRORS": False}])
def test_a_site_can_keep_none(audit: Any, caller: MCPClient, settings: Any) -> None:
    serve(settings, fail)
    settings.MCP_BRIDGE = {"AUDIT": audit}
    caller.call_tool("fail", {"text": "No.", "key": "k"})
    caller.call_tool("fail", {"text": 1})
    for found in ToolCallRecord.objects.all():
        assert (found.error_text, found.invalid_arguments) == ("", "")
    assert ToolCallRecord.objects.count() == 2


def test_of_what_a_stranger_has_made_up_nothing_is_kept(settings: Any) -> None:
    serve(settings, look, public=True)
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "full"}}
    with pytest.raises(MCPError, match="made-up"):
        MCPClient().call_tool("made-up")
    found = record()
    assert (found.error_code, found.error_text, found.arguments) == ("unknown_tool", "", "")


def test_calls_that_wait_and_have_been_approved_know_their_pending_call(
    user: Any, settings: Any
) -> None:
    def wipe() -> str:
        """Wipe everything."""
        return "wiped"

    serve(settings, wipe, confirm=True)
    legacy = MCPClient(user=user, revision="2025-06-18")
    legacy.http.defaults["HTTP_USER_AGENT"] = "gemini-cli/1.0"
    legacy.call_tool("wipe")
    pending = PendingCall.objects.get()
    assert pending.client == "gemini-cli/1.0"
    assert record().pending_call == pending
    assert "requires a person's approval" in record().error_text
    pending.decide(using="default", status="refused")
    legacy.call_tool("wipe")
    PendingCall.objects.update(status="approved")
    legacy.call_tool("wipe")
    found = list(ToolCallRecord.objects.order_by("pk"))
    assert [each.outcome for each in found] == ["refused", "refused", "succeeded"]
    assert [each.pending_call_id for each in found] == [pending.pk] * 3
    PendingCall.objects.all().delete()
    assert ToolCallRecord.objects.filter(pending_call_id=pending.pk).count() == 3


def test_a_lost_record_is_restored_with_its_error(
    caller: MCPClient,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve(settings, fail)
    settings.MCP_BRIDGE = {"AUDIT": {"WRITE": "now"}}

    def refuse(*args: Any) -> None:
        raise DatabaseError("no")

    with monkeypatch.context() as patch:
        patch.setattr(rows, "insert", refuse)
        caller.call_tool("fail", {"text": 1, "key": "k"})
    assert not ToolCallRecord.objects.exists()
    log = tmp_path / "lost.jsonl"
    lines = [each.getMessage() for each in caplog.records if each.name == "mcp_bridge.records.lost"]
    log.write_text("\n".join(lines))
    call_command("mcp_audit", "restore", str(log))
    found = record()
    assert found.invalid_arguments == "/text"
    assert found.error_text


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": "No {cut}.", "key": " ".join(f"secret{number}" for number in range(5000))},
        {"text": "No {cut}. " + "word " * 100_000, "key": WORD},
    ],
)
def test_more_secrets_than_can_be_looked_for_hide_the_whole_text(
    arguments: dict[str, Any], caller: MCPClient, settings: Any
) -> None:
    serve(settings, fail)
    caller.call_tool("fail", arguments)
    assert record().error_text == "[redacted]"


def test_a_long_document_hides_nothing_of_an_error(caller: MCPClient, settings: Any) -> None:
    def save(body: str) -> None:
        """Save."""
        raise ToolError("There is no article mars of the third section.")

    serve(settings, save)
    body = 'An article of the third section about mars: é "quoted"\n' * 900
    caller.call_tool("save", {"body": body})
    assert record().error_text == "There is no article mars of the third section."
