"""Arrays of messages, which exist only in 2025-03-26."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge.protocol.requests import MAX_BATCH
from tests.support import wire
from tests.support.site import CALLS
from tests.support.wire import ENVELOPE, accepted, caller, compact, refused, strict

quiet = wire.quiet

OTHERS = ["2026-07-28", "2025-11-25", "2025-06-18", "2024-11-05", "1900-01-01"]
NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/initialized"}
RESPONSE = {"jsonrpc": "2.0", "id": 9, "result": {}}


def add(id: Any, a: Any = 1, **more: Any) -> dict[str, Any]:
    params = {"name": "add", "arguments": {"a": a}, **more}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def send(messages: Any, version: str | None = "2025-03-26") -> Any:
    text = messages if isinstance(messages, str) else compact(messages)
    return caller("2025-03-26").send(text.encode(), {"MCP-Protocol-Version": version})


def answers(messages: list[Any], version: str | None = "2025-03-26") -> list[dict[str, Any]]:
    response = send(messages, version)
    assert (response.status_code, response.headers["Content-Type"]) == (200, "application/json")
    found: list[dict[str, Any]] = strict(response.content)
    assert isinstance(found, list)
    return found


@pytest.mark.requirement("batch.received")
@pytest.mark.parametrize("version", ["2025-03-26", None])
def test_requests_are_answered_in_an_array_in_order(version: str | None) -> None:
    found = answers([add(1, 5), add("b", 6), request(3, "ping")], version)
    assert [each["id"] for each in found] == [1, "b", 3]
    assert [each["result"].get("content", [{}])[0].get("text") for each in found] == [
        "6",
        "7",
        None,
    ]


def test_batch_of_one_is_answered_by_an_array() -> None:
    assert [each["id"] for each in answers([add(1)])] == [1]


def test_answers_follow_the_revision() -> None:
    (answer,) = answers([add(1)])
    assert set(answer["result"]) == {"content", "isError"}


def test_notifications_and_responses_have_no_answer() -> None:
    found = answers([NOTIFICATION, add(1), RESPONSE, NOTIFICATION])
    assert [each["id"] for each in found] == [1]


@pytest.mark.parametrize("messages", [[NOTIFICATION], [NOTIFICATION] * 3, [NOTIFICATION, RESPONSE]])
def test_batch_without_requests_is_accepted(messages: list[Any]) -> None:
    accepted(send(messages))


def test_call_without_an_id_is_not_run(quiet: None) -> None:
    call = add(1)
    del call["id"]
    accepted(send([call, call]))


def test_messages_fail_independently() -> None:
    messages = [add(1), 5, [add(2)], {"jsonrpc": "2.0", "id": 3}, request(4, "none"), add(5, "x")]
    found = answers([*messages, add(None), add(6)])
    codes = [each.get("error", {}).get("code") for each in found]
    assert codes == [None, -32600, -32600, -32600, -32601, None, -32600, None]
    assert [each["id"] for each in found] == [1, None, None, 3, 4, 5, None, 6]


def test_unknown_tool_fails_only_its_message() -> None:
    found = answers([request(1, "tools/call", name="none"), add(2)])
    assert [each.get("error", {}).get("code") for each in found] == [-32602, None]


def test_duplicate_ids_are_answered_twice() -> None:
    found = answers([add(1, 1), add(1, 2)])
    assert [each["result"]["content"][0]["text"] for each in found] == ["2", "3"]


def test_batch_runs_only_its_requests() -> None:
    CALLS.clear()
    answers([add(1), NOTIFICATION, add(2, "x"), add(3)])
    assert CALLS == ["add", "add"]


def test_batch_has_a_limit() -> None:
    assert len(answers([request(index, "ping") for index in range(MAX_BATCH)])) == MAX_BATCH


@pytest.mark.requirement("batch.no-initialize")
@pytest.mark.parametrize(
    "messages",
    [
        [],
        [add(index) for index in range(MAX_BATCH + 1)],
        [NOTIFICATION] * 5000,
        [add(1), request(2, "initialize", protocolVersion="2025-03-26")],
        [add(1), {"jsonrpc": "2.0", "method": "initialize"}],
        [add(1), add(2, _meta=ENVELOPE)],
    ],
    ids=["empty", "51 calls", "5000", "initialize", "initialize without id", "one modern"],
)
def test_batch_with_a_forbidden_message_is_refused(messages: list[Any], quiet: None) -> None:
    assert "batch" in refused(send(messages), 400, -32600)["message"]


@pytest.mark.requirement("batch.nowhere-else")
@pytest.mark.parametrize("version", OTHERS)
@pytest.mark.parametrize(
    "messages", [[add(1)], [add(1), NOTIFICATION], [NOTIFICATION], [RESPONSE], [], [1], [[]]]
)
def test_batch_is_refused_at_every_other_revision(
    version: str, messages: list[Any], quiet: None
) -> None:
    assert "batch" in refused(send(messages, version), 400, -32600)["message"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[", -32700),
        ("[{}", -32700),
        ("[1,]", -32700),
        ("[NaN]", -32700),
        ('[{"":1,"":2}]', -32600),
    ],
)
def test_non_strict_json_array_is_refused(text: str, code: int, quiet: None) -> None:
    refused(send(text), 400, code)
