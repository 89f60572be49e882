"""Connections that end too early, by the first part of the path."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler

from tests.remote.upstreams.writing import begin, chunk, drop, event, result_of
from tests.support.services import Answer, Received


def before_head(received: Received, handler: BaseHTTPRequestHandler) -> None:
    drop(handler)


def in_head(received: Received, handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Ty")
    handler.close_connection = True


def in_body(received: Received, handler: BaseHTTPRequestHandler) -> None:
    body = json.dumps(result_of(received)).encode()
    handler.wfile.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999\r\n\r\n" + body
    )
    handler.close_connection = True


def in_stream(received: Received, handler: BaseHTTPRequestHandler) -> None:
    begin(handler)
    handler.wfile.write(chunk(event(result_of(received))[:30]))
    handler.close_connection = True


def after_answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
    begin(handler)
    handler.wfile.write(chunk(event(result_of(received))))
    handler.close_connection = True


def not_http(received: Received, handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
    handler.close_connection = True


DROPPING: dict[str, Answer] = {
    each.__name__: each
    for each in (before_head, in_head, in_body, in_stream, after_answer, not_http)
}
