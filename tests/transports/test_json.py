"""Every reader of bodies gives what the strict one gives: the same value, or the same refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pydantic_core
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_bridge.protocol import ProtocolError, jsonrpc
from mcp_bridge.transports.http import decode, decoder, loads

try:
    import orjson
except ImportError:
    orjson = None

Reader = Callable[[bytes], Any]

READERS: dict[str, Reader] = {
    "used": decode,
    "pydantic": decoder(loads, pydantic_core.to_json),
} | ({} if orjson is None else {"orjson": decoder(orjson.loads, orjson.dumps)})
readers = pytest.mark.parametrize("read", READERS.values(), ids=READERS)

DIGITS = jsonrpc.MAX_DIGITS
DEPTH = jsonrpc.MAX_DEPTH
HOSTILE = [
    *('{"a":1,"a":1}', '{"a":1,"\\u0061":1}', '[{"b":{"":0,"":0}}]', '{"a":1,"A":2}'),
    *("NaN", "[NaN]", "Infinity", "-Infinity", '{"a":NaN}', "null", "true", "nul", "", " ", "{}{}"),
    *("-0", "-0.0", "0.0", "1.0", "1e5", "1E5", "1e+5", "1e400", "-1e400", "[1e999]", "1e-400"),
    *("1e16", "1e300", "100000000000000000000.0", "1.7976931348623157e308", "5e-324", "01", "1."),
    *(str(2**number + more) for number in (31, 53, 63, 64, 65, 128) for more in (-1, 0, 1)),
    *(str(-(2**number) + more) for number in (63, 64) for more in (-1, 0, 1)),
    *("9" * DIGITS, "9" * (DIGITS + 1), "-" + "9" * (DIGITS - 1), "-" + "9" * DIGITS, "9" * 5000),
    *('"' + "9" * 999 + '"', "9" * 400 + ".5", "0." + "3" * 400, "[" + "1" * DIGITS + ",1]"),
    *('"\\ud800"', '"\\ud83d\\ude00"', '"\\ude00\\ud83d"', '{"\\udfff":1}', '"\\\\ud800"'),
    *('"\\u0000"', '"\\u001f"', '"\\u001F"', '"\\u007f"', '"\x7f"', '"\\/"', '"\\b\\f\\n\\r\\t"'),
    *(
        '"\t"',
        '"\n"',
        '"\u2028\ufeff"',
        "\ufeff{}",
        '"\\u00e9"',
        '"é"',
        '"\udc80"',
        '"\udced\udca0"',
    ),
    *(
        "[" * DEPTH + "]" * DEPTH,
        "[" * (DEPTH + 1) + "]" * (DEPTH + 1),
        "[" * 5000,
        '["' + "[" * 99,
    ),
    *('["' + "[" * 99 + '"]', '[{"a":' * 40 + "1" + "}]" * 40, "[1,]", '{"a":1,}', "[1 ,2]", "{} "),
]


def outcome(read: Reader, body: bytes) -> object:
    """Return the value as a text in which 1, 1.0, True and -0.0 differ, or the refusal."""
    try:
        return repr(read(body))
    except ProtocolError as error:
        return type(error), str(error)


@readers
@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("form", ["{}", '{{"id":1,"params":{}}}', "[[{}],{{}}]"])
def test_what_few_send_is_read_as_the_strict_reader_reads_it(
    read: Reader, text: str, form: str
) -> None:
    body = form.format(text).encode("utf-8", "surrogateescape")
    assert outcome(read, body) == outcome(jsonrpc.decode, body)


NUMBERS = st.integers() | st.integers(-(2**70), 2**70) | st.floats() | st.integers(10**300, 10**310)
LEAVES = st.none() | st.booleans() | NUMBERS | st.text() | st.sampled_from(["\\", '"', "\0", "/"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner)
)
WRITERS: list[Callable[[Any], str]] = [
    json.dumps,
    lambda value: json.dumps(value, separators=(",", ":")),
    lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False),
]


@readers
@given(value=VALUES, write=st.sampled_from(WRITERS))
def test_what_is_written_is_read_as_the_strict_reader_reads_it(
    read: Reader, value: Any, write: Callable[[Any], str]
) -> None:
    body = write(value).encode("utf-8", "surrogatepass")
    assert outcome(read, body) == outcome(jsonrpc.decode, body)


PIECES = [*'{}[],:"\\0123456789-+.eE', "é", "true", "null", "NaN", "\\u", "d800", '"a":', "\udcff"]


@readers
@given(
    value=VALUES,
    cuts=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 3), st.sampled_from(PIECES))),
)
@example(value={"a": 1}, cuts=[(6, 0, ',"a":1')])
def test_what_is_spoiled_is_read_as_the_strict_reader_reads_it(
    read: Reader, value: Any, cuts: list[tuple[int, int, str]]
) -> None:
    text = WRITERS[-1](value)
    for at, length, piece in cuts:
        text = text[:at] + piece + text[at + length :]
    body = text.encode("utf-8", "surrogateescape" if "\udcff" in text else "surrogatepass")
    assert outcome(read, body) == outcome(jsonrpc.decode, body)


@readers
def test_what_most_clients_send_does_not_need_the_strict_reader(
    read: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = {"id": 1, "params": {"a": [1.5, -2, True, None], "é": 'a "b"\n\\'}}
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    monkeypatch.delattr(jsonrpc, "decode")
    assert read(body) == value
