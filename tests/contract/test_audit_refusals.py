"""Each kind of refusal leaves one record with the reason, the caller and the client."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection

from mcp_bridge.access.policy import AccessPolicy
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.records import recorder
from mcp_bridge.records.repeats import refusals
from mcp_bridge.registry.registry import has_database
from mcp_bridge.testing import MCPClient, MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.support.confirming import FORM, YES
from tests.support.recording import look, record
from tests.support.values import dumps

DRF = "rest_framework.throttling"
AGENT = "claude-code/2.1.7 (external, cli)"


class Broken(AccessPolicy):
    """A custom policy that raises."""

    def allows(self, tool: Any, context: Any) -> bool:
        raise RuntimeError("SECRET-MARKER")


@pytest.fixture(autouse=True)
def uncounted() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def serving(settings: Any) -> Callable[..., None]:
    """A function that serves look() with these settings and options."""

    def set_up(asynchronous: bool = False, mark: Any = None, **values: Any) -> None:
        settings.MCP_BRIDGE = values
        serve(settings, look, asynchronous=asynchronous, **(mark or {}))

    return set_up


def attempt(client: MCPClient, name: str = "look", **params: Any) -> Any:
    """Return the result of a call, or its JSON-RPC error."""
    try:
        return client.post("tools/call", name=name, **params)
    except MCPError as error:
        return error.error


def newest() -> ToolCallRecord:
    return ToolCallRecord.objects.latest("pk")


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_each_refusal_is_one_record(
    asynchronous: bool, user: Any, serving: Callable[..., None]
) -> None:
    asker = CheckedClient(user=user, capabilities=FORM)
    legacy = CheckedClient(user=user, revision="2025-11-25")
    rates = {"THROTTLE_RATES": {"look": "1/day"}}
    endpoint = {"THROTTLE_CLASSES": [f"{DRF}.UserRateThrottle"], "THROTTLE_RATES": {"user": "1/d"}}
    broken = {"ACCESS_POLICY": f"{__name__}.Broken"}
    confirm = {"confirm": True}
    kinds: list[tuple[Any, Any, MCPClient, Any, int, str]] = [
        # Settings, mark, client, params, how many calls before it, and why.
        ({}, {}, asker, {"name": "nothing"}, 0, "unknown_tool"),
        ({}, {"permissions": "auth.add_user"}, legacy, {}, 0, "forbidden"),
        ({}, {}, asker, {"arguments": {"word": 5}}, 0, "invalid"),
        (rates, {}, asker, {}, 1, "throttled"),
        (endpoint, {}, legacy, {}, 1, "throttled"),
        ({}, confirm, asker, {}, 0, "unconfirmed"),
        ({}, confirm, legacy, {}, 0, "unconfirmed"),
        ({}, confirm, asker, {"requestState": "made up", "inputResponses": YES}, 0, "invalid"),
        ({}, {"throttle": "seldom"}, asker, {}, 0, "internal_error"),
        (broken, {}, legacy, {}, 0, "internal_error"),
    ]
    for values, mark, client, params, before, why in kinds:
        cache.clear()
        for rows in (PendingCall.objects, ToolSetting.objects):
            rows.all().delete()
        ToolCallRecord.objects.all().delete()
        serving(asynchronous, mark, **values)
        for _ in range(before):
            assert attempt(client)["isError"] is False
        attempt(client, **params)
        found = newest()
        assert ToolCallRecord.objects.count() == before + 1, why
        assert (found.outcome, found.error_code, found.user_name) == ("refused", why, "ada")
        assert (found.user, found.duration_ms) == (user, None)


def test_refusal_and_question_are_separate_records(user: Any, serving: Callable[..., None]) -> None:
    serving(mark={"confirm": True})
    asker = CheckedClient(user=user, capabilities=FORM)
    state = attempt(asker)["requestState"]
    no = {"confirm": {"action": "decline"}}
    assert attempt(asker, requestState=state, inputResponses=no)["isError"]
    state = attempt(asker)["requestState"]
    assert not attempt(asker, requestState=state, inputResponses=YES)["isError"]
    rows = ToolCallRecord.objects.order_by("pk").values_list("outcome", "error_code")
    assert list(rows) == [("refused", "unconfirmed")] * 3 + [("succeeded", "")]


@pytest.mark.off_stdio
def test_rate_limited_requests_are_recorded_with_their_caller(
    user: Any, serving: Callable[..., None]
) -> None:
    serving(THROTTLE_CLASSES=[f"{DRF}.UserRateThrottle"], THROTTLE_RATES={"user": "1/day"})
    client = CheckedClient(token=Token.objects.issue(user=user, name="laptop")[1])
    client.headers["User-Agent"] = AGENT
    client.list_tools()
    assert attempt(client)["code"] == 429
    found = record()
    assert (found.tool, found.error_code) == ("look", "throttled")
    assert (found.user_name, found.credential, found.client_name) == ("ada", "laptop", AGENT)


@pytest.mark.off_stdio
def test_client_is_its_info_or_user_agent(user: Any, serving: Callable[..., None]) -> None:
    serving()
    modern, legacy = CheckedClient(user=user), CheckedClient(user=user, revision="2025-06-18")
    nameless = CheckedClient(user=user)
    said = {"io.modelcontextprotocol/clientInfo": {"version": "3"}}
    for client in (modern, legacy, nameless):
        client.headers["User-Agent"] = AGENT + "\x1b[31m\x00" + "x" * 500
    attempt(modern)
    attempt(legacy)
    attempt(nameless, _meta=said)
    names = list(ToolCallRecord.objects.order_by("pk").values_list("client_name", "client_version"))
    assert names[0] == ("mcp_bridge.testing", "1")
    for name, _ in names[1:]:
        assert (name[: len(AGENT)], len(name)) == (AGENT, 100)
        assert name.isprintable()
    assert names[2][1] == "3"


@pytest.mark.off_stdio
def test_anonymous_caller_is_recorded_by_address_and_agent(serving: Callable[..., None]) -> None:
    serving()
    refusals.clear()
    client = CheckedClient(token="mcp_wrong")
    client.headers["User-Agent"] = AGENT
    assert attempt(client)["code"] == 401
    found = record()
    assert (found.error_code, found.user, found.user_name) == ("unauthenticated", None, "")
    assert (found.remote_address, found.client_name) == ("127.0.0.1", AGENT)


class Strange:
    """A credential that raises when it is inspected."""

    @property
    def name(self) -> str:
        raise RuntimeError("SECRET-MARKER")


@pytest.mark.off_stdio
@pytest.mark.parametrize("required", [False, True])
def test_undescribable_caller_is_recorded(
    required: bool, user: Any, serving: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    serving(AUDIT={"REQUIRED": required})
    client = CheckedClient(user=user)
    client.http.force_authenticate(user, Strange())
    assert attempt(client)["isError"] is False
    found = record()
    assert (found.outcome, found.user_name, found.tool) == ("succeeded", "ada", "look")
    assert [each.name for each in caplog.records] == ["mcp_bridge.records"]


def test_required_recording_fails_without_a_database(
    user: Any, serving: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site without a database cannot store it."""
    client = CheckedClient(user=user)
    monkeypatch.setattr(connection, "vendor", "unknown")
    # Drop the value that a process caches.
    monkeypatch.setattr(recorder, "has_database", has_database.__wrapped__)
    for read_only in (True, False):
        for required in (True, False):
            serving(AUDIT={"REQUIRED": required}, mark={"read_only": read_only})
            result = attempt(client)
            assert result["isError"] is (required and not read_only)
            if result["isError"]:
                assert "was not run" in text_of(result)


def test_exception_with_a_failing_text_is_recorded(user: Any, settings: Any) -> None:
    class Mute(ValueError):
        def __str__(self) -> str:
            raise RuntimeError("SECRET-MARKER")

    def hush() -> None:
        """Fail without a word."""
        from django.core.exceptions import PermissionDenied

        raise type("Denied", (Mute, PermissionDenied), {})

    for asynchronous in (False, True):
        for read_only in (False, True):
            serve(settings, hush, asynchronous=asynchronous, read_only=read_only)
            ToolCallRecord.objects.all().delete()
            assert attempt(CheckedClient(user=user), "hush")["code"] == -32603
            assert (record().outcome, record().error_code) == ("failed", "internal_error")


def test_other_methods_are_not_recorded(user: Any, serving: Callable[..., None]) -> None:
    serving()
    client = CheckedClient(user=user)
    call = client.message("tools/call", name="look")
    headers = client.mirrored(call)
    notification = {name: each for name, each in call.items() if name != "id"}
    encoded = f"=?base64?{base64.b64encode(b'other').decode()}?="
    for body, changed in [
        (dumps(notification), {}),
        (b"{", {}),
        (dumps({**call, "method": "tools/run"}), {"Mcp-Method": "tools/run"}),
        (dumps(call), {"Mcp-Name": encoded}),
        (dumps(call), {"Origin": "https://evil.example"}),
        (dumps(call), {"Content-Type": "text/plain"}),
    ]:
        answer = client.send(body, {**headers, **changed})
        assert answer.status_code in (202, 400, 403, 404, 415)
    assert not ToolCallRecord.objects.exists()
    client.send(dumps(call), headers)
    assert json.loads(client.response.content)["result"]["isError"] is False
    assert ToolCallRecord.objects.count() == 1


def test_encoded_name_is_recorded_decoded(user: Any) -> None:
    client = CheckedClient(token="forged")
    message = client.message("tools/call", name="größe")
    encoded = "=?base64?" + base64.b64encode("größe".encode()).decode() + "?="
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
    response = client.send(dumps(message), {**headers, "Mcp-Name": encoded})
    assert (response.status_code, record().tool) == (401, "größe")


@pytest.mark.off_stdio
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_client_texts_are_escaped_in_records(
    asynchronous: bool, user: Any, serving: Callable[..., None]
) -> None:
    serving(asynchronous)
    evil = "look\n2026-11-23 ok\r\x1b[31m\u202etxt.exe\u2066\u200b\x85\u2028\0end\u115f\u3164\u034f"
    shown = "look\ufffd2026-11-23 ok\ufffd\ufffd[31m\ufffdtxt.exe" + "\ufffd" * 5 + "end"
    shown += "\ufffd" * 3
    for revision in ("2026-07-28", "2025-11-25"):
        refusals.clear()
        client = CheckedClient(user=user, revision=revision)
        client.headers["User-Agent"] = "agent\x85\x9b"
        info = {"io.modelcontextprotocol/clientInfo": {"name": evil, "version": evil}}
        modern = {"_meta": info} if revision == "2026-07-28" else {}
        attempt(client, evil, **modern)
        found = newest()
        assert (found.error_code, found.tool) == ("unknown_tool", shown)
        assert found.client_name == (shown if modern else "agent\ufffd\ufffd")
    with connection.cursor() as cursor:
        cursor.execute(f'SELECT * FROM "{ToolCallRecord._meta.db_table}"')
        texts = [each for row in cursor.fetchall() for each in row if isinstance(each, str)]
    assert all(each.isprintable() for each in texts)
