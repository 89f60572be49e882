"""The rules that every answer must obey, for any input."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from mcp_types import JSONRPCError, JSONRPCResponse

from mcp_bridge.protocol.headers import decoded_header
from mcp_bridge.protocol.requests import PROTOCOL_VERSION
from tests.fuzz.mutations import Sent
from tests.fuzz.ways import Answer
from tests.support.wire import strict

STATUSES = {200, 202, 400, 401, 403, 404, 405, 406, 413, 415}
CODES = {-32700, -32600, -32601, -32602, -32020, -32021, -32022, 401, 403}
# Django's own answers to requests that it refuses before any view.
OF_DJANGO = b'\n<!doctype html>\n<html lang="en">\n<head>\n  <title>Bad Request (400)</title>'


def judge(sent: Sent, answer: Answer, runs: list[str]) -> None:
    """Raise AssertionError unless the answer is one that a client can read, and no more has run."""
    assert answer.status in STATUSES, answer.status
    for secret in (b"Traceback", b"File ", b"mcp_bridge.", b"SELECT "):
        assert secret not in answer.body or secret in sent.body, secret
    value, is_strict = _read(sent.body)
    asked = _asked(value) if is_strict else Counter()
    assert not Counter(runs) - asked, f"{runs} have run"
    if answer.status in (202, 405):
        assert answer.body == b"" or (answer.status == 405 and b" accepts only POST" in answer.body)
        assert sent.method != "POST" or answer.status == 202
        return
    if answer.status == 400 and answer.body.startswith(OF_DJANGO):
        return
    assert answer.headers["content-type"] == "application/json"
    found = strict(answer.body)
    if isinstance(found, list):
        assert isinstance(value, list)
        assert 0 < len(found) <= len(value)
    elif answer.status != 200:
        assert "error" in found
    for each in found if isinstance(found, list) else [found]:
        _judge_one(each, value, is_strict, len(answer.body) if each is found else 0)
    if runs:
        assert answer.status == 200
        _check_headers(sent, value, runs)


def _judge_one(found: dict[str, Any], value: Any, is_strict: bool, size: int) -> None:
    requests = value if isinstance(value, list) else [value]
    ids = [each["id"] for each in requests if isinstance(each, dict) and "id" in each]
    has_id = any(type(each) is type(found["id"]) and each == found["id"] for each in ids)
    if "result" in found:
        JSONRPCResponse.model_validate(found)
        assert is_strict, "a result for what is no strict JSON"
        assert has_id, "a result with an id that was not sent"
        return
    JSONRPCError.model_validate(found)
    error = found["error"]
    assert set(found) == {"jsonrpc", "id", "error"}
    assert has_id or found["id"] is None
    assert error["code"] in CODES, error
    assert 0 < len(error["message"]) <= 300
    assert size <= 4096 + 2 * 6 * 256


def _read(body: bytes) -> tuple[Any, bool]:
    try:
        value = strict(body)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, AssertionError, RecursionError):
        return None, False
    return value, True


def _asked(value: Any) -> Counter[str]:
    """Return how often a body asks for each tool."""
    names: Counter[str] = Counter()
    for each in value if isinstance(value, list) else [value]:
        params = each.get("params") if isinstance(each, dict) and "id" in each else None
        if isinstance(params, dict) and each.get("method") == "tools/call":
            names[str(params.get("name"))] += 1
    return names


def _check_headers(sent: Sent, value: Any, runs: list[str]) -> None:
    """Check that a tool that has run is the one that the headers of a modern request name."""
    headers = {name.replace(b"_", b"-"): each for name, each in sent.headers}
    meta = value["params"].get("_meta") if isinstance(value, dict) else None
    if isinstance(meta, dict) and PROTOCOL_VERSION in meta and len(headers) == len(sent.headers):
        name = headers[b"mcp-name"].decode("latin-1").strip(" \t")
        assert [decoded_header("Mcp-Name", name)] == runs
