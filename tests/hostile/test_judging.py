"""The judge of hostile requests finds the faults of an answer, and none in a good one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.hostile.__main__ import CALLERS, inputs
from tests.hostile.connection import Answer, _parse
from tests.hostile.drafts import LEGACY, MODERN
from tests.hostile.serving import SITES
from tests.hostile.wanted import ECHOED, PARAMS, PARSE, Accepted, Either, Http, Sent, Wanted

JSON = {"content-type": "application/json"}
RESULT = {"content": [{"type": "text", "text": "hi"}], "structuredContent": {"result": "hi"}}


def error(code: int, message: str = "Wrong.", id: Any = 1, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, **more}}


def result(**more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": {**RESULT, "resultType": "complete", **more}}


def judged(wanted: Wanted, body: Any, status: int = 200, ran: int = 0, era: str = MODERN) -> str:
    """Return the findings on an answer, which is JSON or a text."""
    written = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    answer = Answer(status, JSON, written)
    return "; ".join(wanted.problems(answer, Sent(era, "tools/call", 1, ran)))


@pytest.mark.parametrize(
    ("wanted", "body", "status", "ran"),
    [
        (ECHOED, result(), 200, 1),
        (PARAMS, error(-32602), 200, 0),
        (PARSE, error(-32700, id=None), 400, 0),
        (Accepted(), "", 202, 0),
        (Http((404,)), "", 404, 0),
        (Either((ECHOED, PARAMS)), error(-32602), 200, 0),
    ],
)
def test_good_answer_has_no_findings(wanted: Wanted, body: Any, status: int, ran: int) -> None:
    assert judged(wanted, body, status, ran) == ""


@pytest.mark.parametrize(
    ("body", "status", "ran", "said"),
    [
        (result(), 200, 0, "ran 0 times"),
        (result(), 500, 1, "status 500"),
        (result(isError=True), 200, 1, "isError"),
        (result(content="hi"), 200, 1, "not as the schema"),
        ({**result(), "id": "1"}, 200, 1, "the id"),
        ({**result(), "more": 1}, 200, 1, "the members"),
        ({**result(), "result": RESULT}, 200, 1, "not as the schema"),
        (json.dumps(result()).replace('"hi"', "NaN"), 200, 1, "no strict JSON"),
        (json.dumps(result()).replace('"id"', '"id": 1, "id"'), 200, 1, "no strict JSON"),
        (result(_meta={"x": "Traceback"}), 200, 1, "it tells"),
        (result(_meta={"x": "KeyError"}), 200, 1, "it tells"),
        (result(_meta={"x": "SECRET-MARKER"}), 200, 1, "it tells"),
        (result(_meta={"x": "y" * 70_000}), 200, 1, "bytes"),
        ("<html>", 200, 1, "it is HTML"),
        (error(-32603), 200, 1, "no result"),
    ],
)
def test_bad_result_is_found(body: Any, status: int, ran: int, said: str) -> None:
    assert said in judged(ECHOED, body, status, ran)


@pytest.mark.parametrize(
    ("body", "status", "ran", "said"),
    [
        (error(-32602), 400, 0, "status 400"),
        (error(-32602), 200, 1, "ran 1 times"),
        (error(-32600), 200, 0, "the code"),
        (error(-32000 - 42), 200, 0, "the reserved code"),
        (error(-32602, id=None), 200, 0, "the id"),
        (error(-32602, "x" * 301), 200, 0, "301 characters"),
        (error(-32602, data={"trace": 1}), 200, 0, "the data"),
        (error(-32602, "see views.py"), 200, 0, "it tells"),
        (result(), 200, 0, "no JSON-RPC error"),
    ],
)
def test_bad_error_is_found(body: Any, status: int, ran: int, said: str) -> None:
    assert said in judged(PARAMS, body, status, ran)


def test_members_of_one_era_are_wrong_in_the_other() -> None:
    assert "another era" in judged(ECHOED, result(), ran=1, era=LEGACY)
    assert "a second answer" in "; ".join(
        Accepted().problems(Answer(202, {}, b"", rest=b"HTTP"), Sent(MODERN, ""))
    )


def test_answer_is_read_only_when_complete() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    assert _parse(whole[:-1], ended=False) is None
    assert _parse(whole + b"x", ended=False) == Answer(
        200, {"content-length": "2"}, b"{}", whole[:-6], b"x"
    )
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"
    assert _parse(chunks[:-1], ended=False) is None
    answer = _parse(chunks, ended=False)
    assert answer is not None
    assert answer.body == b"{}"


def test_there_are_many_inputs_with_unique_names() -> None:
    for site in SITES:
        for caller in CALLERS:
            names = [name for name, *_ in inputs(site, caller)]
            assert len(names) == len(set(names))
            assert sum(MODERN in name for name in names) > 300
            assert sum(LEGACY in name for name in names) > 300
