from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import pytest

from mcp_bridge.protocol import (
    LATEST,
    CallToolResult,
    CreateTaskResult,
    Headers,
    InvalidParamsError,
    ProtocolError,
    Reply,
    Request,
    errors,
    internal_error,
    refuse,
)
from mcp_bridge.protocol.errors import (
    ForbiddenError,
    InsufficientScopeError,
    InternalError,
    MethodNotFoundError,
    MissingRequiredClientCapabilityError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from mcp_bridge.protocol.requests import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcp_bridge.protocol.revisions import LATEST_LEGACY, UNDECLARED, Revision
from tests.support.calling import replied

MODERN = {"_meta": {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}}}


def message(id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "m", "params": params}


def reply_to(body: Any, outcome: Any, headers: Headers | None = None) -> Reply:
    """Return the reply to ``body`` if the handler has that outcome."""

    def handle(request: Request) -> Any:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome(request) if callable(outcome) else outcome

    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return replied(raw, handle, headers=headers)


def error_of(reply: Reply) -> Mapping[str, Any]:
    assert reply.body is not None
    found: Mapping[str, Any] = json.loads(reply.body)
    assert set(found) == {"jsonrpc", "id", "error"}
    return found


class Written:
    """A result that writes itself."""

    def to_json(self, revision: Revision, server_meta: bytes) -> bytes:
        return b'{"a":1}'


@pytest.mark.parametrize("id", [0, -5, "a", '"', "\u2028", "\N{GRINNING FACE}"])
@pytest.mark.parametrize("outcome", [{"a": 1}, Written(), {"a": True}, {}])
def test_result_is_sent_with_the_id(outcome: Any, id: Any) -> None:
    reply = reply_to(message(id), outcome)
    expected = {"a": 1} if isinstance(outcome, Written) else outcome
    assert (reply.status, reply.headers) == (200, {})
    assert json.loads(reply.body or b"") == {"jsonrpc": "2.0", "id": id, "result": expected}


def test_responses_reach_no_handler() -> None:
    answer = {"jsonrpc": "2.0", "id": 1, "result": {}}
    reply = reply_to(answer, AssertionError("the handler was asked"))
    assert (reply.status, reply.body) == (202, None)


def test_notification_is_handled_and_has_no_response() -> None:
    reply = reply_to({"jsonrpc": "2.0", "method": "m"}, {"a": 1})
    assert (reply.status, reply.body) == (202, None)


def test_refused_notification_of_a_batch_has_no_response() -> None:
    notification = {"jsonrpc": "2.0", "method": "m"}
    reply = replied(json.dumps([notification, notification]).encode(), refusing)
    assert (reply.status, reply.body) == (202, None)


def refusing(request: Any) -> Any:
    raise InvalidParamsError("m")


def test_refused_notification_is_400_without_an_id() -> None:
    reply = reply_to({"jsonrpc": "2.0", "method": "m"}, InvalidParamsError("m"))
    assert (reply.status, error_of(reply)["id"]) == (400, None)


@pytest.mark.parametrize(
    ("body", "code", "id"),
    [(b"", -32700, None), (b"[]", -32600, None), (b"{}", -32600, None)]
    + [(b'{"jsonrpc":"2.0","id":5,"method":1}', -32600, 5)],
)
def test_unreadable_messages_reach_no_handler(body: bytes, code: int, id: Any) -> None:
    found = reply_to(body, AssertionError("the handler was asked"))
    assert found.status == 400
    assert (error_of(found)["error"]["code"], error_of(found)["id"]) == (code, id)


@pytest.mark.parametrize(
    ("error", "modern", "legacy"),
    [
        (MethodNotFoundError("m"), 404, 200),
        (InvalidParamsError("m"), 200, 200),
        (InternalError("m"), 200, 200),
        (MissingRequiredClientCapabilityError("sampling"), 400, 200),
    ],
    ids=lambda value: type(value).__name__,
)
def test_error_sets_the_status_for_modern_clients_only(
    error: ProtocolError, modern: int, legacy: int
) -> None:
    assert reply_to(message(**MODERN), error).status == modern
    assert reply_to(message(), error).status == legacy
    assert error_of(reply_to(message(9), error))["id"] == 9


def test_headers_of_an_error_are_sent() -> None:
    assert reply_to(message(**MODERN), UnavailableError("later")).headers == {"Retry-After": "1"}


@pytest.mark.parametrize(
    "outcome",
    [RuntimeError("SECRET-MARKER"), KeyError("SECRET-MARKER"), RecursionError(), TypeError("x")]
    + [{"a": float("nan")}, {"a": object()}, {"a": "\ud800"}, ExceptionGroup("g", [OSError()])],
)
def test_unexpected_errors_are_logged_but_not_sent(
    outcome: Any, caplog: pytest.LogCaptureFixture
) -> None:
    reply = reply_to(message(), outcome)
    error = error_of(reply)["error"]
    assert (reply.status, error["code"], set(error)) == (200, -32603, {"code", "message"})
    assert "SECRET" not in error["message"]
    first = caplog.records[0]
    assert (first.levelno, first.exc_info is not None) == (logging.ERROR, True)
    assert first.getMessage().partition("reference ")[2].rstrip(")") in error["message"]


def test_method_name_cannot_forge_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    reply_to({**message(), "method": "x\r\nERROR forged \x1b[31m" + "y" * 10**5}, OSError())
    for record in caplog.records:
        assert record.getMessage().isprintable()
        assert len(record.getMessage()) < 200


INFO = {"name": "site", "version": "1"}
OTHERS = [INFO, {**INFO, "version": 1}, {**INFO, "version": True}, INFO]


@pytest.mark.parametrize("result", [{"a": 1}, {"a": 1, "_meta": {"b": 2}}, CallToolResult()])
def test_modern_result_names_the_server(result: Any) -> None:
    for info in OTHERS:
        for params in (MODERN, {}):
            raw = json.dumps(message(**params)).encode()
            reply = replied(raw, lambda request: result, server_info=info)
            meta = json.loads(reply.body or b"")["result"].get("_meta", {})
            found = meta.get("io.modelcontextprotocol/serverInfo")
            assert json.dumps(found) == json.dumps(info if params else None)


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (TooManyRequestsError("m", 5), {"Retry-After": "5"}),
        (TooManyRequestsError("m"), {}),
        (UnavailableError("m", 7), {"Retry-After": "7"}),
        (InsufficientScopeError("m", "Bearer x", {}), {"WWW-Authenticate": "Bearer x"}),
    ],
)
def test_refusal_has_its_header(error: ProtocolError, headers: Any) -> None:
    assert (reply_to(message(**MODERN), error, Headers("2026-07-28", "m")).headers) == headers


def test_challenge_keeps_its_status_for_legacy_clients() -> None:
    error = InsufficientScopeError("m", "Bearer x", {"isError": True})
    assert reply_to(message(), error, Headers("2025-11-25")).status == 403
    # If an answer sets no status, a model reads the result.
    for reply in (reply_to(message(), error), reply_to([message()], error, Headers("2025-03-26"))):
        assert reply.status == 200
        assert b'"result":{"isError":true}' in (reply.body or b"")


def test_batch_is_answered_in_order_without_its_notifications() -> None:
    body = [
        message(2),
        {"jsonrpc": "2.0", "method": "m"},
        5,
        message("a"),
        {"jsonrpc": "2.0", "id": 3},
    ]
    reply = reply_to(body, lambda request: {"of": request.id})
    answers = json.loads(reply.body or b"")
    assert reply.status == 200
    assert [each["id"] for each in answers] == [2, None, "a", 3]
    assert [each.get("result") for each in answers] == [{"of": 2}, None, {"of": "a"}, None]


def test_batch_goes_on_after_an_error() -> None:
    def handle(request: Request) -> Any:
        if request.id == 1:
            raise MethodNotFoundError("none")
        return {}

    reply = reply_to([message(1), message(2)], handle)
    codes = [each.get("error", {}).get("code") for each in json.loads(reply.body or b"")]
    assert (reply.status, codes) == (200, [-32601, None])


def test_batch_of_notifications_has_no_answer() -> None:
    reply = reply_to([{"jsonrpc": "2.0", "method": "m"}] * 3, {})
    assert (reply.status, reply.body) == (202, None)


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (UnauthorizedError("no", 'Bearer realm="x"'), {"WWW-Authenticate": 'Bearer realm="x"'}),
        (ForbiddenError("no"), {}),
    ],
)
def test_refusal_before_the_message_has_no_id(error: ProtocolError, headers: Any) -> None:
    reply = refuse(error)
    assert (reply.status, reply.headers) == (error.http_status, headers)
    assert error_of(reply)["id"] is None


def test_references_differ() -> None:
    texts = set()
    for _ in range(50):
        try:
            raise OSError
        except OSError:
            texts.add(internal_error("It").message)
    assert len(texts) == 50


@pytest.mark.requirement(
    "error.undefined-code", "error.legacy-code", "error.withdrawn-code", "error.members"
)
def test_every_error_has_a_permitted_code() -> None:
    """MCP 2026-07-28, "Error codes": -32000 to -32019 and undefined -320xx codes are not ours."""
    found = [each for _, each in inspect.getmembers(errors, inspect.isclass)]
    kinds = [each for each in found if issubclass(each, ProtocolError) and each != ProtocolError]
    standard = {-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022}
    assert len(kinds) == 23
    assert {kind.code for kind in kinds} == standard | {401, 403, 429, 503}
    assert all(isinstance(kind.http_status, HTTPStatus) for kind in kinds)


def test_missing_capabilities_are_an_object() -> None:
    error = MissingRequiredClientCapabilityError("elicitation", "sampling")
    assert error.data == {"requiredCapabilities": {"elicitation": {}, "sampling": {}}}


@pytest.mark.parametrize("params", [{"a": 1}, None, "text", []])
def test_params_of_a_notification_are_an_object(params: object) -> None:
    seen: list[Request] = []
    body = {"jsonrpc": "2.0", "method": "notifications/x", "params": params}
    assert reply_to(body, lambda request: seen.append(request) or {}).body is None
    assert [each.params for each in seen] == [params if params == {"a": 1} else {}]


@pytest.mark.parametrize("assumed", [UNDECLARED, LATEST_LEGACY])
def test_message_without_a_header_has_the_assumed_revision(assumed: Revision) -> None:
    seen: list[Revision] = []
    found = replied(
        json.dumps(message()).encode(),
        lambda request: seen.append(request.revision) or {},
        assumed=assumed,
    )
    assert (found.status, seen) == (HTTPStatus.OK, [assumed])
    batch = json.dumps([message()]).encode()
    status = replied(batch, lambda request: {}, assumed=assumed).status
    assert (status == HTTPStatus.OK) is assumed.batches


def test_response_in_a_batch_does_not_end_it() -> None:
    body = [{"jsonrpc": "2.0", "id": 5, "result": {}}, message(6)]
    reply = replied(json.dumps(body).encode(), lambda request: {"a": 1}, assumed=UNDECLARED)
    assert reply.body is not None
    assert [each["id"] for each in json.loads(reply.body)] == [6]


def test_meta_of_a_result_is_sent_as_well() -> None:
    body = json.dumps(message(**MODERN)).encode()
    reply = replied(body, lambda request: {"_meta": {"a": 1}}, server_info={"name": "n"})
    assert reply.body is not None
    sent = json.loads(reply.body)["result"]["_meta"]
    assert sent == {"a": 1, "io.modelcontextprotocol/serverInfo": {"name": "n"}}


def test_responses_are_handed_over_as_they_came() -> None:
    sent = {"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}}
    taken: list[object] = []

    async def take(message: object) -> None:
        taken.append(message)

    reply = replied(json.dumps(sent).encode(), lambda request: {}, take=take)
    assert (reply.status, reply.body, taken) == (HTTPStatus.ACCEPTED, None, [sent])


def test_created_task_is_flat() -> None:
    created = CreateTaskResult({"taskId": "a"})
    assert json.loads(created.to_json(LATEST)) == {"resultType": "task", "taskId": "a", "_meta": {}}
    assert created.to_json(LATEST, b'{"x":1}').endswith(b',"_meta":{"x":1}}')
    assert not created.is_error
