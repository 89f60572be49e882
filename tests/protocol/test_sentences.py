"""The texts that a client reads about a refused message, word for word."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from mcp_bridge.protocol import Headers
from mcp_bridge.protocol.errors import (
    MissingRequiredClientCapabilityError,
    ProtocolError,
    SessionNotFoundError,
    UnsupportedProtocolVersionError,
)
from mcp_bridge.protocol.input_requests import URLElicitRequest, check_response, read_answers
from mcp_bridge.protocol.pagination import position
from mcp_bridge.protocol.requests import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from tests.support.calling import replied

VERSION = "2026-07-28"
META = {PROTOCOL_VERSION: VERSION, CLIENT_CAPABILITIES: {}}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
MODERN = Headers(VERSION, "tools/call", "add")
SERVED = "2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05"


def call(meta: Any = META, **params: Any) -> dict[str, Any]:
    return {**CALL, "params": {"name": "add", "_meta": meta, **params}}


def read(body: Any, headers: Headers | None) -> str:
    """Return the sentence that answers a body."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = replied(raw, lambda request: {}, headers=headers)
    return str(json.loads(reply.body or b"")["error"]["message"])


NO_BATCH = (
    "Invalid request: a batch (a JSON array) is not part of this revision; send one message per "
    "POST."
)
NO_ID = (
    "Invalid request: the id must be a string of at most 256 characters or a 64-bit integer, not "
    "null."
)
META_MISSING = (
    "Invalid params: params._meta must be an object with 'io.modelcontextprotocol/protocolVersion' "
    "and 'io.modelcontextprotocol/clientCapabilities'."
)
TWICE = "Invalid request: an object has a duplicate member; send each member once."
UNSUPPORTED = f"Unsupported protocol version: this server supports {SERVED}."
BODIES: list[tuple[Any, Headers | None, str]] = [
    (b"\xff", None, "Parse error: the body is not UTF-8."),
    (b"\xef\xbb\xbf{}", None, "Parse error: the body begins with a byte order mark; remove it."),
    (b"[" * 65, None, "Parse error: nested more than 64 levels deep."),
    (b"{", None, "Parse error: the body is not one JSON text."),
    (b'{"a":NaN}', None, "Parse error: NaN is not a JSON number."),
    (b'{"a":1e999}', None, "Parse error: a number is out of range."),
    (b"1" * 310, None, "Parse error: a number has more than 309 digits."),
    (b'{"a":1,"a":1}', None, TWICE),
    (
        b'"\\ud800"',
        None,
        "Invalid request: a string contains a lone surrogate, which is not a character.",
    ),
    (1, None, "Invalid request: send one JSON-RPC object per POST, not a number."),
    ({**PING, "id": None}, None, NO_ID),
    ([PING], Headers("2025-11-25"), NO_BATCH),
    ([], Headers("2025-03-26"), "Invalid request: a batch must have 1 to 10 messages, not 0."),
    ([PING] * 11, None, "Invalid request: a batch must have 1 to 10 messages, not 11."),
    (
        [{**PING, "method": "initialize"}],
        None,
        "Invalid request: initialize must not be part of a batch.",
    ),
    ({**PING, "jsonrpc": "2"}, None, 'Invalid request: the member "jsonrpc" must be "2.0".'),
    (
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        Headers(VERSION),
        "Invalid request: clients send requests, not responses.",
    ),
    ({**PING, "method": 1}, None, 'Invalid request: the member "method" must be a string.'),
    ({**PING, "params": []}, None, 'Invalid params: the member "params" must be an object.'),
    ({**CALL, "params": 1}, MODERN, 'Invalid params: the member "params" must be an object.'),
    (CALL, MODERN, META_MISSING),
    *[
        (call(meta), headers, "Invalid params: params._meta must be an object or be omitted.")
        for meta in ([1], "x", 1, True)
        for headers in (None, Headers("2025-11-25"))
    ],
    *[
        (
            call(META | {key: value}),
            MODERN,
            f"Invalid params: params._meta[{key!r}] must be {wanted}.",
        )
        for key, value, wanted in [
            (PROTOCOL_VERSION, 1, "a string"),
            (CLIENT_CAPABILITIES, [], "an object"),
            (CLIENT_INFO, "x", "an object"),
            ("progressToken", True, "a string or an integer"),
        ]
    ],
    (PING, Headers("1900-01-01"), UNSUPPORTED),
    ({"jsonrpc": "2.0", "method": "x"}, Headers("1900-01-01"), UNSUPPORTED),
    (
        call(),
        Headers(None, "tools/call", "add"),
        "Header mismatch: the header MCP-Protocol-Version is missing; send '2026-07-28'.",
    ),
    (
        call(),
        Headers(VERSION, "tools/list", "add"),
        "Header mismatch: Mcp-Method is 'tools/list', but the body says 'tools/call'.",
    ),
    (
        call(),
        Headers(VERSION, "tools/call"),
        "Header mismatch: the header Mcp-Name is missing; send 'add'.",
    ),
    (
        call(),
        Headers(VERSION, "tools/call", "=?base64?!?="),
        "Header mismatch: Mcp-Name is not valid Base64 of UTF-8 text.",
    ),
]


@pytest.mark.parametrize(("body", "headers", "sentence"), BODIES, ids=range(len(BODIES)))
def test_message_is_refused_in_a_sentence(
    body: Any, headers: Headers | None, sentence: str
) -> None:
    assert read(body, headers) == sentence


PARAMETERS: list[tuple[dict[str, Any], str | None, str]] = [
    (
        {},
        "eu",
        "Header mismatch: Mcp-Param-Zone-Id was sent, but the body does not have its value.",
    ),
    (
        {"zone": "é"},
        "é",
        "Header mismatch: Mcp-Param-Zone-Id has characters that headers cannot contain; send it as "
        "=?base64?…?=.",
    ),
    (
        {"zone": "eu"},
        "=?base64?!?=",
        "Header mismatch: Mcp-Param-Zone-Id is not valid Base64 of UTF-8 text.",
    ),
    (
        {"zone": "eu"},
        None,
        "Header mismatch: the header Mcp-Param-Zone-Id is missing; send 'eu'.",
    ),
    (
        {"zone": 7},
        "\t 8.0",
        "Header mismatch: Mcp-Param-Zone-Id is '8', but the body says '7'.",
    ),
    (
        {"zone": "eu"},
        "X",
        "Header mismatch: Mcp-Param-Zone-Id is 'X', but the body says 'eu'.",
    ),
    (
        {"zone": "eu"},
        "\x0beu",
        "Header mismatch: Mcp-Param-Zone-Id has characters that headers cannot contain; send it as "
        "=?base64?…?=.",
    ),
]


@pytest.mark.parametrize(("arguments", "sent", "sentence"), PARAMETERS)
def test_header_of_a_parameter_is_refused_in_a_sentence(
    arguments: dict[str, Any], sent: str | None, sentence: str
) -> None:
    environ = {} if sent is None else {"HTTP_MCP_PARAM_ZONE_ID": sent}
    with pytest.raises(ProtocolError) as raised:
        Headers(environ=environ).check_parameters({"Zone-Id": ["zone"]}, arguments)
    assert raised.value.message == sentence


FORM, WORDS, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
ROLE = "role and .model must be strings."
ROOT = "roots must be an array of roots, each with a uri."
ANSWERS: list[tuple[str, Any, str]] = [
    (FORM, 1, " must be an object."),
    (FORM, {}, ".action must be accept, decline or cancel."),
    (FORM, {"action": "Accept"}, ".action must be accept, decline or cancel."),
    (FORM, {"action": "cancel", "content": 1}, ".content must be an object."),
    (WORDS, {"role": "x", "model": "y"}, ".content must be an object or an array."),
    (WORDS, {"content": {}, "model": "y"}, f".{ROLE}"),
    (WORDS, {"content": [], "role": "x"}, f".{ROLE}"),
    (ROOTS, {}, f".{ROOT}"),
    (ROOTS, {"roots": [1]}, f".{ROOT}"),
    (ROOTS, {"roots": [{"uri": "file:///a"}, {}]}, f".{ROOT}"),
]


@pytest.mark.parametrize(("method", "response", "rest"), ANSWERS)
def test_answer_of_a_client_is_refused_in_a_sentence(method: str, response: Any, rest: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        check_response("key", method, response)
    assert raised.value.message == f"Invalid params: inputResponses['key']{rest}"


@pytest.mark.parametrize(
    ("method", "response"),
    [
        *[(FORM, {"action": each}) for each in ("accept", "decline", "cancel")],
        (FORM, {"action": "accept", "content": {}}),
        *[(WORDS, {"role": "x", "model": "y", "content": each}) for each in ({}, [])],
        *[(ROOTS, {"roots": each}) for each in ([], [{"uri": "file:///a"}])],
    ],
)
def test_answer_that_fits_its_form_is_taken(method: str, response: Any) -> None:
    check_response("key", method, response)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"requestState": 1}, "Invalid params: requestState must be a string."),
        ({"inputResponses": None}, "Invalid params: inputResponses must be an object."),
    ],
)
def test_answers_are_refused_in_a_sentence(params: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        read_answers(params)
    assert raised.value.message == sentence


def test_answers_are_read_only_with_their_state() -> None:
    assert read_answers({"inputResponses": {"a": 1}}) is None
    found = read_answers({"requestState": ""})
    assert found is not None
    assert (found.state, found.responses) == ("", {})


def test_address_of_a_question_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="^the URL must be http or https, not 'x'$"):
        URLElicitRequest("Sign.", "x")


@pytest.mark.parametrize("cursor", [None, "", "=Mg", "Mg=", "M", "é"])
def test_cursor_is_refused_in_a_sentence(cursor: Any) -> None:
    with pytest.raises(ProtocolError) as raised:
        position(cursor)
    assert raised.value.message == (
        "Invalid cursor: send the nextCursor of a previous page unchanged, or none to begin."
    )


CAPABILITY = "params._meta['io.modelcontextprotocol/clientCapabilities']."


@pytest.mark.parametrize(
    ("names", "legacy", "sentence"),
    [
        (
            ["sampling"],
            None,
            f"This request requires the client capability sampling: declare it in {CAPABILITY}",
        ),
        (
            ["elicitation.url", "roots"],
            None,
            "This request requires the client capability elicitation.url and roots: declare it in "
            + CAPABILITY,
        ),
        (
            ["elicitation", "elicitation.url"],
            "2025-11-25",
            "This tool asks its user (elicitation and elicitation.url), which requires "
            "MCP 2026-07-28; this client uses MCP 2025-11-25.",
        ),
        (
            ["elicitation", "roots"],
            "2025-06-18",
            "This tool asks its client (elicitation and roots), which requires MCP "
            "2026-07-28; this client uses MCP 2025-06-18.",
        ),
    ],
)
def test_missing_capability_is_named(names: list[str], legacy: str | None, sentence: str) -> None:
    assert MissingRequiredClientCapabilityError(*names, legacy=legacy).message == sentence


def test_legacy_client_reads_why_it_is_not_asked() -> None:
    error = MissingRequiredClientCapabilityError("elicitation", legacy="2025-11-25", asked=True)
    why = "which this client did not declare in initialize."
    assert error.message == f"This tool asks its user (elicitation), {why}"


def test_requested_version_is_repeated_to_its_64th_character() -> None:
    error: Any = UnsupportedProtocolVersionError("x" * 65)
    assert (error.data["requested"], error.message) == ("x" * 64, UNSUPPORTED)


@pytest.mark.parametrize(
    ("body", "subject"),
    [(PING, "The request 'ping' failed"), ([PING], "The request 'ping' failed")],
)
def test_log_names_the_failed_request(
    body: Any, subject: str, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(request: Any) -> Any:
        raise OSError("SECRET")

    reply = replied(json.dumps(body).encode(), handle)
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    text, _, reference = record.getMessage().partition(" (reference ")
    assert (text, len(reference)) == (subject, 13)
    sentence = "The server failed to answer; its log says why under the reference "
    assert f'"{sentence}{reference[:-1]}."' in (reply.body or b"").decode()


def test_extension_is_named_with_its_dots() -> None:
    error: Any = MissingRequiredClientCapabilityError("extensions.io.example/x.y", "a.b.c")
    needed = {"extensions": {"io.example/x.y": {}}, "a": {"b": {"c": {}}}}
    assert error.data == {"requiredCapabilities": needed}


def test_ended_session_says_how_to_begin_again() -> None:
    assert SessionNotFoundError().message == (
        "Session not found: send initialize to begin a new one."
    )
