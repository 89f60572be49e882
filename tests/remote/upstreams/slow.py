"""Answers that take too long, by the first part of the path."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler

from tests.remote.upstreams.writing import (
    LAST,
    Repeating,
    begin,
    chunk,
    event,
    result_of,
    wait_for_client,
)
from tests.support.services import Answer, Received


def silent(received: Received, handler: BaseHTTPRequestHandler) -> None:
    wait_for_client(handler)


def silent_stream(received: Received, handler: BaseHTTPRequestHandler) -> None:
    begin(handler)
    handler.wfile.write(chunk(b": begun\n\n"))
    wait_for_client(handler)


def head_byte_by_byte(received: Received, handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Endless: ")
    Repeating(b"x", 0.05)(handler)


def body_byte_by_byte(received: Received, handler: BaseHTTPRequestHandler) -> None:
    begin(handler, "application/json")
    Repeating(chunk(b" "), 0.05)(handler)


def open_after_answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
    begin(handler)
    answer = chunk(event(result_of(received)))
    handler.wfile.write(answer)
    handler.connection.settimeout(20)
    try:
        wait_for_client(handler)
    except TimeoutError:
        # A client that has waited receives a second one.
        handler.wfile.write(answer)


def comments_for(seconds: float) -> Answer:
    """Return an answer that comes after so many seconds of comments."""

    def answer(received: Received, handler: BaseHTTPRequestHandler) -> None:
        begin(handler)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            handler.wfile.write(chunk(b": wait\n\n"))
            threading.Event().wait(0.05)
        handler.wfile.write(chunk(event(result_of(received))) + LAST)

    return answer


SLOW: dict[str, Answer] = {
    each.__name__: each
    for each in (silent, silent_stream, head_byte_by_byte, body_byte_by_byte, open_after_answer)
}
