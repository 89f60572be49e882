"""A record has the error that the model read and the pointers of bad arguments, and no secrets."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError
from pydantic import Field, SecretStr

from mcp_bridge import Context, ToolError
from mcp_bridge.access import AccessPolicy
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


class Broken(AccessPolicy):
    """An access policy with a bug."""

    def allows(self, feature: Any, context: Any) -> bool:
        raise KeyError("the desk")


@pytest.fixture
def caller(user: Any) -> MCPClient:
    return MCPClient(user=user)


def test_error_text_of_the_model_is_kept(caller: MCPClient, settings: Any) -> None:
    serve(settings, fail)
    settings.MCP_BRIDGE = {}
    caller.call_tool("fail", {"text": "There is no article 7.", "key": "k"})
    found = record()
    assert (found.outcome, found.error_code) == ("failed", "tool_error")
    assert (found.error_text, found.invalid_arguments) == ("There is no article 7.", "")
    assert found.arguments == ""


def test_pointers_of_bad_arguments_are_kept(caller: MCPClient, settings: Any) -> None:
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
def test_secrets_of_the_arguments_are_not_in_the_text(
    text: str, kept: str, caller: MCPClient, settings: Any
) -> None:
    serve(settings, fail)
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": kept}}
    caller.call_tool("fail", {"text": text, "key": WORD, "door": {"a": ["Sesame-open", 4711]}})
    said = record().error_text.casefold()
    assert "[redacted]" in said
    for secret in ("hunter", "überr", "raschung", "sesame", "4711"):
        assert secret not in said.replace(text.casefold(), "")


def test_internal_errors_keep_their_exception(caller: MCPClient, settings: Any) -> None:
    def divide(by: int) -> float:
        """Divide one."""
        return 1 / by

    serve(settings, divide)
    result = caller.call_tool("divide", {"by": 0})
    sent, exception = record().error_text.splitlines()
    assert exception == "ZeroDivisionError: division by zero"
    assert sent == result["content"][0]["text"]
    assert "division" not in caller.response.content.decode()


def test_unsendable_results_keep_their_exception(caller: MCPClient, settings: Any) -> None:
    def peek() -> Any:
        """Return what is not JSON."""
        return object()

    serve(settings, peek)
    caller.call_tool("peek")
    assert "object" in record().error_text.splitlines()[1]


def test_failed_prechecks_keep_their_exception(caller: MCPClient, settings: Any) -> None:
    def check(context: Context) -> None:
        raise LookupError("no such desk")

    serve(settings, look, precheck=check)
    caller.call_tool("look", {"word": "a"})
    assert record().outcome == "refused"
    assert record().error_text.splitlines()[1:] == ["LookupError: no such desk"]


def test_secrets_are_not_in_a_kept_exception(caller: MCPClient, settings: Any) -> None:
    def open_door(key: SecretStr) -> None:
        """Open a door."""
        secret = key.get_secret_value()
        raise RuntimeError(f"{secret} at postgres://eva:{secret}@db\nBearer mcp_" + "a1" * 30)

    serve(settings, open_door)
    caller.call_tool("open_door", {"key": WORD})
    assert record().error_text.splitlines()[1].startswith("RuntimeError: [redacted]-[redacted] at")
    for secret in ("hunter", "überr", "eva:", "a1a1"):
        assert secret not in record().error_text.casefold()


def test_failing_access_policies_keep_their_exception(user: Any, settings: Any) -> None:
    serve(settings, look)
    settings.MCP_BRIDGE = {"ACCESS_POLICY": f"{__name__}.Broken"}
    with pytest.raises(MCPError) as raised:
        MCPClient(user=user).call_tool("look", {"word": "a"})
    assert record().error_text == "\nKeyError: 'the desk'"
    assert "desk" not in str(raised.value)


def test_token_in_an_error_is_hidden(caller: MCPClient, settings: Any) -> None:
    def leak() -> None:
        """Fail with a token in the text."""
        raise ToolError("Bearer mcp_" + "a1" * 30 + " is not known")

    serve(settings, leak)
    caller.call_tool("leak")
    assert "a1a1" not in record().error_text


def test_long_text_is_cut_and_one_line(caller: MCPClient, settings: Any) -> None:
    serve(settings, fail)
    caller.call_tool("fail", {"text": "One\nline.\x7f\u202e " * 400, "key": "k"})
    found = record().error_text
    assert len(found) <= 500
    assert found.startswith("One line.\ufffd\ufffd One")
    assert found.endswith("…")
    assert found.isprintable()


@pytest.mark.parametrize("audit", [{"ERRORS": False}])
def test_site_can_keep_no_error_texts(audit: Any, caller: MCPClient, settings: Any) -> None:
    serve(settings, fail)
    settings.MCP_BRIDGE = {"AUDIT": audit}
    caller.call_tool("fail", {"text": "No.", "key": "k"})
    caller.call_tool("fail", {"text": 1})
    caller.call_tool("fail", {"text": "{nothing}", "key": "k"})
    for found in ToolCallRecord.objects.all():
        assert (found.error_text, found.invalid_arguments) == ("", "")
    assert ToolCallRecord.objects.count() == 3


def test_anonymous_calls_of_unknown_tools_keep_no_input(settings: Any) -> None:
    serve(settings, look, public=True)
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "full"}}
    with pytest.raises(MCPError, match="made-up"):
        MCPClient().call_tool("made-up")
    found = record()
    assert (found.error_code, found.error_text, found.arguments) == ("unknown_tool", "", "")


def test_records_of_queued_calls_name_their_pending_call(user: Any, settings: Any) -> None:
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


def test_lost_record_is_restored_with_its_error(
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
def test_too_many_secrets_hide_the_whole_text(
    arguments: dict[str, Any], caller: MCPClient, settings: Any
) -> None:
    serve(settings, fail)
    caller.call_tool("fail", arguments)
    assert record().error_text == "[redacted]"


def test_long_document_hides_nothing_of_an_error(caller: MCPClient, settings: Any) -> None:
    def save(body: str) -> None:
        """Save."""
        raise ToolError("There is no article mars of the third section.")

    serve(settings, save)
    body = 'An article of the third section about mars: é "quoted"\n' * 900
    caller.call_tool("save", {"body": body})
    assert record().error_text == "There is no article mars of the third section."
