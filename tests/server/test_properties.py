"""Properties that hold for any input, tested with generated inputs."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mcp_bridge.protocol import InvalidParamsError, ProtocolError, jsonrpc, pagination
from mcp_bridge.protocol.jsonrpc import MAX_DEPTH
from mcp_bridge.testing import MCPClient
from tests.support.revisions import ERAS
from tests.support.site import CALLS
from tests.support.wire import ENVELOPE, caller, compact, good, headers, message, strict

# The same inputs in every run, so that a failure is caused by the change under test.
few = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
many = settings(few, max_examples=100)
era = st.sampled_from(ERAS)

text = st.text(max_size=20) | st.sampled_from(["jsonrpc", "method", "params", "_meta", "__class__"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 2**31, 2**53 + 1, 2**63, 10**308, -(10**100)])
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(text, values, max_size=5)
# As values, and as texts that Python's json writes outside of JSON: NaN and lone surrogates.
odd = st.recursive(
    scalars | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=6,
)
members = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | values,
        "id": st.just(1) | values,
        "method": st.sampled_from(["tools/list", "tools/call", "ping", "initialize"]) | values,
        "params": st.fixed_dictionaries({"_meta": st.just(ENVELOPE)}) | values,
        "result": values,
        "error": values,
    },
)


def judged(client: MCPClient, body: bytes, sent: Any = None) -> Any:
    """Return the answer, which is JSON-RPC and not a failure of the server, or None."""
    response = client.send(body, headers(client) if sent is None else sent)
    assert response.status_code in (200, 202, 400, 404, 413)
    if response.status_code == 202:
        assert response.content == b""
        return None
    assert response.headers["Content-Type"] == "application/json"
    answer = strict(response.content)
    for each in answer if isinstance(answer, list) else [answer]:
        assert ("result" in each) != ("error" in each)
        assert each.get("error", {}).get("code") != -32603
    return answer


@pytest.fixture(autouse=True)
def no_errors_in_the_log(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.ERROR)
    yield
    assert caplog.get_records("call") == []


# The endpoint.


@pytest.mark.requirement("message.json-rpc")
@few
@given(era, odd | members)
def test_any_json_as_a_body_is_answered(revision: str, value: Any) -> None:
    judged(caller(revision), json.dumps(value).encode())


@few
@given(era, st.lists(members, max_size=4))
def test_any_batch_is_answered(revision: str, batch: list[Any]) -> None:
    judged(caller(revision), compact(batch).encode(), {"MCP-Protocol-Version": "2025-03-26"})


@few
@given(era, values | objects, st.sampled_from(["tools/call", "tools/list", "initialize"]))
def test_any_json_as_params_is_answered(revision: str, params: Any, method: str) -> None:
    client = caller(revision)
    if isinstance(params, dict) and client.revision.modern:
        params = {**params, "_meta": ENVELOPE}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    judged(client, compact(body).encode(), headers(client, method))


@few
@given(era, values | objects, st.sampled_from(["add", "tree", "by_hand", "find_orders"]))
def test_any_json_as_arguments_is_answered(revision: str, arguments: Any, name: str) -> None:
    client = caller(revision)
    body = compact(message(client, name=name, arguments=arguments)).encode()
    assert judged(client, body, headers(client, name=name))["id"] == 1


@pytest.mark.requirement("meta.values", "meta.required")
@few
@given(era, values | objects | st.builds(lambda more: {**ENVELOPE, **more}, objects))
def test_any_json_as_meta_is_answered(revision: str, meta: Any) -> None:
    client = caller(revision)
    body = message(client)
    body["params"]["_meta"] = meta
    assert judged(client, compact(body).encode())["id"] == 1


@few
@given(era, st.binary(max_size=60))
def test_any_bytes_as_a_body_are_refused(revision: str, body: bytes) -> None:
    assert "error" in judged(caller(revision), body)


@many
@given(era, st.data())
def test_changed_message_is_answered_only_if_strict_json(
    revision: str, data: st.DataObject
) -> None:
    client = caller(revision)
    body = bytearray(good(client).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    answer = judged(client, bytes(body))
    if isinstance(answer, dict) and "result" in answer:
        assert isinstance(strict(bytes(body)), dict)


names = st.sampled_from(["add", "echo", "none", "", "Add"])
methods = st.sampled_from(["tools/call", "tools/list", "ping"])


@pytest.mark.requirement("header.matches")
@few
@given(names, names, methods, methods)
def test_tool_runs_only_if_header_and_body_agree(
    named: str, name: str, sent: str, method: str
) -> None:
    client = caller()
    body = {**message(client, name=name, arguments={"a": 1}), "method": method}
    CALLS.clear()
    judged(client, compact(body).encode(), headers(client, sent, named))
    agreed = named == name == "add" and sent == method == "tools/call"
    assert len(CALLS) == agreed


mirrored = st.sampled_from(["Mcp-Name", "Mcp-Method", "MCP-Protocol-Version"])
latin = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=30)


@few
@given(era, st.dictionaries(mirrored, latin))
def test_any_mcp_headers_are_answered(revision: str, sent: dict[str, str]) -> None:
    client = caller(revision)
    judged(client, good(client).encode(), {**headers(client), **sent})


@few
@given(st.integers(1, 100_000), st.sampled_from([("[", "]"), ('{"":', "}")]), st.booleans())
@example(MAX_DEPTH - 3, ("[", "]"), True)
@example(MAX_DEPTH - 2, ("[", "]"), True)
@example(MAX_DEPTH - 1, ("[", "]"), True)
def test_any_depth_is_answered(depth: int, marks: tuple[str, str], closed: bool) -> None:
    client = caller("2025-11-25")
    deep = marks[0] * depth + "1" + marks[1] * depth * closed
    template = compact(message(client, name="anything", arguments={"value": "@"}))
    answer = judged(client, template.replace('"@"', deep).encode())
    assert ("result" in answer) == (closed and depth <= MAX_DEPTH - 3)


# The protocol.


@many
@given(values)
def test_encoded_value_can_be_decoded(value: Any) -> None:
    assert jsonrpc.decode(jsonrpc.encode(value)) == value


@many
@given(odd)
def test_decoded_value_equals_pythons(value: Any) -> None:
    written = json.dumps(value)
    try:
        assert jsonrpc.decode(written.encode()) == json.loads(written)
    except ProtocolError:
        with pytest.raises(ValueError, match="."):
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


@many
@given(st.from_regex(r"[A-Za-z0-9_.-]{1,128}", fullmatch=True))
def test_every_name_is_a_position(name: str) -> None:
    assert pagination.position(pagination.after(name)) == name


def spellings(position: str | int) -> set[str]:
    """Return the cursors of a tool's name, or all spellings of an offset."""
    if isinstance(position, str):
        return {pagination.after(position)}
    digits = (f"{position:0{width}}" for width in range(1, 10))
    padded = {base64.b64encode(each.encode()).decode() for each in digits}
    return padded | {each.rstrip("=") for each in padded}


@many
@given(st.text(max_size=30) | st.text("MNOPQRTUj02469AEIgkwz=+/-_", max_size=12))
def test_every_other_string_is_not_a_position(cursor: str) -> None:
    try:
        position = pagination.position(cursor)
    except InvalidParamsError:
        return
    assert cursor in spellings(position)


@many
@given(values)
def test_other_values_are_not_a_position(value: Any) -> None:
    if not isinstance(value, str):
        with pytest.raises(InvalidParamsError):
            pagination.position(value)
