"""Large bodies: how deep they are is found at the speed of C."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge.protocol import jsonrpc
from mcp_bridge.testing import MCPClient
from tests.support.wire import good, headers, refused

MIB = 2**20
texts = st.text(alphabet='[]{}"\\/né\u2028', max_size=6)
values = st.recursive(
    texts | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=20,
)


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@given(values, st.integers(jsonrpc.MAX_DEPTH - 4, jsonrpc.MAX_DEPTH + 1), st.booleans())
def test_depth_of_a_text_is_that_of_its_value(value: Any, around: int, ascii: bool) -> None:
    text = "[" * around + json.dumps(value, ensure_ascii=ascii) + "]" * around
    wanted = around + depth_of(value) > jsonrpc.MAX_DEPTH
    assert jsonrpc.is_too_deep(text.encode()) is wanted


BRACKETS = {
    "pairs": "[" + "[]," * (MIB // 3) + "[]]",
    "deep": "[" + ("[" * 50 + "]" * 50 + ",") * (MIB // 101) + "[]]",
    "too deep": "[" * (MIB // 2) + "]" * (MIB // 2),
    "open": "[" * MIB,
    "strings": "[" + '"[",' * (MIB // 4) + '""]',
    "escapes": '["' + '[\\"' * (MIB // 3) + '"]',
}


@pytest.mark.parametrize("brackets", BRACKETS.values(), ids=BRACKETS)
def test_depth_of_many_brackets_is_found_fast(brackets: str) -> None:
    body = brackets.encode()
    before = time.process_time()
    sum(body)
    spent = time.process_time() - before
    before = time.process_time()
    assert jsonrpc.is_too_deep(body) is (brackets[:70] == "[" * 70)
    assert time.process_time() - before < 8 * spent + 0.2


def test_mebibyte_of_brackets_is_refused(sender: MCPClient) -> None:
    text = good(sender).replace('"a":1', '"a":' + BRACKETS["too deep"][100:])
    refused(sender.send(text.encode()[: MIB - 1], headers(sender)), 400, -32700)
