"""Answers that are not MCP, by the first part of the path."""

from __future__ import annotations

import gzip
import json
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.remote.upstreams.writing import event, number_of, result_of, stream
from tests.support.services import Answer, Received, send


def html(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"<h1>Welcome</h1>", kind="text/html; charset=utf-8")


def wrong_id(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, result_of(received) | {"id": 10**6})


def wrong_id_in_stream(received: Received, handler: BaseHTTPRequestHandler) -> None:
    stream(handler, event(result_of(received) | {"id": 10**6}))


def half_json(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, json.dumps(result_of(received)).encode()[:40])


def half_json_in_stream(received: Received, handler: BaseHTTPRequestHandler) -> None:
    stream(handler, event(result_of(received)).replace(b"}", b""))


def compressed(received: Received, handler: BaseHTTPRequestHandler) -> None:
    body = gzip.compress(json.dumps(result_of(received)).encode())
    send(handler, body, Content_Encoding="gzip")


def two_answers(received: Received, handler: BaseHTTPRequestHandler) -> None:
    stream(handler, event(result_of(received)) * 2)


def no_answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, status=202)


def no_answer_in_stream(received: Received, handler: BaseHTTPRequestHandler) -> None:
    stream(handler, b": nothing\n\n")


def batch(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, [result_of(received)])


def no_result(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, {"jsonrpc": "2.0", "id": number_of(received), "result": ["done"]})


def untyped(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"done", kind="")


def redirect(received: Received, handler: BaseHTTPRequestHandler) -> None:
    host = received.headers["host"]
    send(handler, status=302, Location=f"http://{host}/wrong_id")


def challenge(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, status=401, WWW_Authenticate='Bearer realm="https://evil.example"')


def busy(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, status=429, Retry_After="7")


def busy_until_a_date(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, status=429, Retry_After="Fri, 01 Jan 2100 00:00:00 GMT")


def failing(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"10.0.0.7 is down", status=503, kind="text/plain")


def missing(received: Received, handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"Not found", status=404, kind="text/plain")


def error_with_strange_code(received: Received, handler: BaseHTTPRequestHandler) -> None:
    error = {"code": ["a", "list"], "message": {"an": "object"}}
    send(handler, {"jsonrpc": "2.0", "id": number_of(received), "error": error}, status=400)


def bad_params(received: Received, handler: BaseHTTPRequestHandler) -> None:
    error = {"code": -32602, "message": "Invalid params"}
    send(handler, {"jsonrpc": "2.0", "id": number_of(received), "error": error}, status=400)


def refused_unread(received: Received, handler: BaseHTTPRequestHandler) -> None:
    """Refuse calls as a legacy server does, but answer discovery as a modern one."""
    message = json.loads(received.body)
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": None}
    if message["method"] == "server/discover":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
        send(handler, answer | {"id": message["id"], "result": result})
    else:
        error = {"code": -32600, "message": "Invalid request"}
        send(handler, answer | {"error": error}, status=400)


def foreign_progress(received: Received, handler: BaseHTTPRequestHandler) -> None:
    """Report the progress of another call, and write what a client does not have to know."""
    notifications: list[dict[str, Any]] = [
        {"method": "notifications/progress", "params": {"progressToken": 10**6, "progress": 1}},
        {"method": "notifications/progress", "params": ["progress"]},
        {"method": "notifications/unknown"},
        {"method": ["notifications/progress"]},
    ]
    events = [event({"jsonrpc": "2.0", **each}) for each in notifications]
    stream(handler, *events, b"data:\n\n", event(result_of(received)))


def carriage_returns(received: Received, handler: BaseHTTPRequestHandler) -> None:
    stream(handler, event(result_of(received), b"\r"))


def beginning(session: str, version: str) -> Answer:
    """Return an answer to initialize with a session id and a revision."""

    def begin(received: Received, handler: BaseHTTPRequestHandler) -> None:
        result: dict[str, Any] = {"protocolVersion": version, "capabilities": {}}
        answer = {"jsonrpc": "2.0", "id": number_of(received), "result": result}
        send(handler, answer, Mcp_Session_Id=session)

    return begin


LIES: dict[str, Answer] = {
    each.__name__: each
    for each in (
        *(html, wrong_id, wrong_id_in_stream, half_json, half_json_in_stream, compressed),
        *(two_answers, no_answer, no_answer_in_stream, batch, no_result, untyped, redirect),
        *(challenge, busy, busy_until_a_date, failing, missing, error_with_strange_code),
        *(bad_params, refused_unread, carriage_returns, foreign_progress),
    )
} | {
    "spaced_session": beginning("not a token", "2025-11-25"),
    "long_session": beginning("x" * 2000, "2025-11-25"),
    "old_revision": beginning("session", "1999-12-31"),
}
