from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from mcp_bridge.protocol import jsonrpc, requests
from mcp_bridge.protocol.errors import InvalidRequestError, MethodNotFoundError, ParseError
from mcp_bridge.protocol.jsonrpc import MAX_DEPTH, MAX_DIGITS, MAX_ID, MAX_ID_LENGTH
from mcp_bridge.protocol.text import cut

EMOJI = "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1, 2**63, 10**308, 1.5, 1e308, -0.5, "", "é", EMOJI, "\x00", [], {}, [[{}]]],
)
def test_encoded_value_can_be_decoded(value: Any) -> None:
    assert jsonrpc.decode(jsonrpc.encode(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (' \r\n\t{"a" : 1 } ', {"a": 1}),
        ('"\\ud83d\\ude00"', EMOJI),
        ('"\\uD83D\\uDE00"', EMOJI),
        ('"\\\\ud800"', "\\ud800"),
        ('"\\u0000"', "\x00"),
        ('"[[[["', "[[[["),
        ("1e99", 1e99),
        ("-0", 0),
        ('"' + "9" * 999 + '"', "9" * 999),
        ('{"a":1,"A":2}', {"a": 1, "A": 2}),
        ('"\u2028\ufeff"', "\u2028\ufeff"),
    ],
)
def test_unusual_json_is_read(text: str, value: Any) -> None:
    assert jsonrpc.decode(text.encode()) == value


@pytest.mark.parametrize("digits", [1, 299, 300, 308, MAX_DIGITS])
@pytest.mark.parametrize("sign", ["", "-"])
def test_integer_as_long_as_a_float_is_exact(digits: int, sign: str) -> None:
    text = (sign + "7" * digits)[:MAX_DIGITS]
    assert jsonrpc.decode(text.encode()) == int(text)


@pytest.mark.parametrize(
    "text",
    ["", " ", "{", "[1,]", '{"a":1,}', "01", "+1", ".5", "1.", "0x1", "1_0", "'a'", "nul", "{}{}"]
    + ["{} x", "NaN", "Infinity", "-Infinity", "[NaN]", "1e400", "-1e400", "1E+309"]
    + ["1" * (MAX_DIGITS + 1), "9" * 5000, "9" * 400 + ".5", "1." + "0" * 400 + "e400"]
    + ['"\t"', '"\n"', '"\\x41"', '"\\u12"', '"a', "//c\n1", "/**/1", "\x0b1", "\u00a01"],
)
def test_text_that_is_not_json_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        jsonrpc.decode(text.encode())


@pytest.mark.parametrize(
    "body",
    [b"\xff", b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xe2\x82"', b"\xef\xbb\xbf{}", b"\x80"]
    + ["{}".encode(name) for name in ("utf-16", "utf-16-le", "utf-32", "utf-32-be")],
)
def test_bytes_outside_of_utf_8_are_a_parse_error(body: bytes) -> None:
    with pytest.raises(ParseError):
        jsonrpc.decode(body)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}',
        '{"a":1,"\\u0061":2}',
        '[{"b":{"a":1,"a":1}}]',
        '{"a":{},"b":[[{"":0,"":0}]]}',
    ],
)
def test_object_with_a_duplicate_member_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="duplicate member"):
        jsonrpc.decode(text.encode())


@pytest.mark.parametrize(
    "text",
    ['"\\ud800"', '"\\uDFFF"', '"a\\udc00b"', '"\\ude00\\ud83d"', '{"\\ud800":1}', '["\\uD800"]'],
)
def test_lone_surrogate_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="surrogate"):
        jsonrpc.decode(text.encode())


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_nesting_is_read_to_the_limit_and_no_deeper(opening: str, closing: str) -> None:
    levels = MAX_DEPTH // (opening.count("[") + opening.count("{"))
    assert jsonrpc.decode((opening * levels + "1" + closing * levels).encode())
    with pytest.raises(ParseError, match="deep"):
        jsonrpc.decode((opening * (levels + 1) + "1" + closing * (levels + 1)).encode())


@pytest.mark.parametrize("text", ["[" * 10**6, '{"a":' * 10**5, "[{" * 10**5, '["' + "[" * 99])
def test_unclosed_nesting_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        jsonrpc.decode(text.encode())


def test_adjacent_and_quoted_brackets_are_not_nesting() -> None:
    value = ["[" * 500, '\\"[{' * 500, [[]] * 500, {"{": "}"}]
    assert jsonrpc.decode(json.dumps(value).encode()) == value
    assert jsonrpc.decode(json.dumps("[" * 500).encode()) == "[" * 500


def test_backslash_at_the_end_of_a_string_is_ignored() -> None:
    value = ["\\", "[" * 500]
    assert jsonrpc.decode(json.dumps(value).encode()) == value
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    with pytest.raises(ParseError, match="deep"):
        jsonrpc.decode(rf'["\\",{deep}]'.encode())


@pytest.mark.parametrize("content", ["[" * 500_000, "x" * 500_000 + "{" * 99, '\\"[' * 150_000])
def test_reading_a_body_takes_little_extra_memory(content: str) -> None:
    body = f'{{"text":"{content}"}}'.encode()
    tracemalloc.start()
    try:
        jsonrpc.decode(body)
        growth = tracemalloc.get_traced_memory()[1] / len(body)
    finally:
        tracemalloc.stop()
    assert growth < 20


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", ["\udfff"], {"\ud800": 1}])
def test_value_outside_of_strict_json_is_not_encoded(value: Any) -> None:
    with pytest.raises(ValueError, match="."):
        jsonrpc.encode(value)


def test_circles_and_endless_depth_are_not_encoded() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for value in (circle, deep):
        with pytest.raises(ValueError, match="^(nested too deeply for JSON|Circular .*)$"):
            jsonrpc.encode(value)


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}])
def test_value_of_another_type_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError):
        jsonrpc.encode(value)


@pytest.mark.parametrize(
    "value", [0, -1, 1, MAX_ID - 1, -MAX_ID, "", "1", "null", EMOJI, "x" * MAX_ID_LENGTH]
)
def test_string_or_64_bit_integer_is_an_id(value: Any) -> None:
    read = requests.read_id({"jsonrpc": "2.0", "id": value})
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize(
    "value", [None, True, False, 1.0, 1.5, MAX_ID, -MAX_ID - 1, "x" * 257, [], [1], {}, {"a": 1}]
)
def test_other_values_are_not_an_id(value: Any) -> None:
    with pytest.raises(InvalidRequestError):
        requests.read_id({"jsonrpc": "2.0", "id": value})


def test_message_without_an_id_has_none() -> None:
    assert requests.read_id({"jsonrpc": "2.0", "method": "x"}) is None


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        *((None, "null"), (True, "a boolean"), (1, "a number"), (1.5, "a number")),
        *(("x", "a string"), ([], "an array"), ([{}], "an array")),
    ],
)
def test_message_that_is_not_an_object_is_refused(message: Any, kind: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"one JSON-RPC object per POST, not {kind}\\.$"):
        requests.read_id(message)


@pytest.mark.parametrize("request_id", [0, -5, "a", '"', "\u2028", EMOJI])
def test_errors_are_json_and_echo_the_id(request_id: Any) -> None:
    error = json.loads(jsonrpc.error_response(request_id, MethodNotFoundError("gone")))
    assert error["id"] == request_id
    assert error["error"] == {"code": -32601, "message": "Method not found: gone"}


def test_error_without_data_omits_the_member() -> None:
    error = json.loads(jsonrpc.error_response(None, ParseError("bad", data={"at": 3})))
    assert error == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32700, "message": "bad", "data": {"at": 3}},
    }


@pytest.mark.parametrize(("length", "kept"), [(0, 0), (64, 64), (65, 65), (10**6, 65)])
def test_text_is_repeated_only_to_a_limit(length: int, kept: int) -> None:
    assert len(cut("x" * length)) == kept


@pytest.mark.parametrize(
    ("text", "is_long"),
    [
        (b"", False),
        (b"1" * 308, False),
        (b"0123456789" * 30 + b"012345678", True),
        (b"1" * 309 + b"e5", True),
        (b"1" * 308 + b".5", False),
        (b"-" + b"9" * 308 + b" 9", False),
    ],
)
def test_number_with_many_digits_is_found(text: bytes, is_long: bool) -> None:
    assert jsonrpc.has_long_number(text) is is_long
