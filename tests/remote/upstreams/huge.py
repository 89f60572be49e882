"""Answers without an end, by the first part of the path."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

from tests.remote.upstreams.writing import Repeating, begin, chunk, event, result_of, stream
from tests.support.services import Answer, Received

BLOCK = b"x" * 8192


def endless_body(received: Received, handler: BaseHTTPRequestHandler) -> None:
    begin(handler, "application/json")
    Repeating(chunk(BLOCK))(handler)


def endless_event(received: Received, handler: BaseHTTPRequestHandler) -> None:
    begin(handler)
    handler.wfile.write(chunk(b"data: "))
    Repeating(chunk(BLOCK))(handler)


def endless_lines(received: Received, handler: BaseHTTPRequestHandler) -> None:
    begin(handler)
    Repeating(chunk(b"data: x\n" * 1000))(handler)


def long_event(received: Received, handler: BaseHTTPRequestHandler) -> None:
    stream(handler, event(result_of(received, padding="x" * 20_000)))


def many_events(received: Received, handler: BaseHTTPRequestHandler) -> None:
    """Write more than the limit of a body in events that are each below their own."""
    notification = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}}
    stream(handler, event(notification) * 2000, event(result_of(received)))


HUGE: dict[str, Answer] = {
    each.__name__: each
    for each in (endless_body, endless_event, endless_lines, long_event, many_events)
}
