"""HTTP at the level of bytes: cases are sent unchanged, and answers are read unchanged."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from typing import Final

# A server that has not answered by then hangs.
SECONDS: Final = 15.0
# No answer of the suite is as long; a server that exceeds it sends without bounds.
MOST_BYTES: Final = 16 * 2**20
END_OF_HEAD: Final = b"\r\n\r\n"


class NoAnswerError(Exception):
    """The server closed the connection without an answer, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """
    One response; headers by lower-case name, ``rest`` is everything that followed the response.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    head: bytes = b""
    rest: bytes = b""


def exchange(port: int, *parts: bytes, then_close: bool = False) -> Answer:
    """Send the parts over a new connection, and return the first answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for part in parts:
                connection.sendall(part)
            if then_close:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            # A server may refuse a request that it has not read to its end.
            pass
        return _read(connection)


def _read(connection: socket.socket) -> Answer:
    until = time.monotonic() + SECONDS
    received = b""
    while (answer := _parse(received, ended=False)) is None:
        try:
            connection.settimeout(max(0.01, until - time.monotonic()))
            more = connection.recv(1 << 18)
        except TimeoutError:
            raise NoAnswerError(
                f"no whole answer in {SECONDS:g} s, but {received[:80]!r}"
            ) from None
        except OSError:
            more = b""
        if not more:
            answer = _parse(received, ended=True)
            if answer is None:
                raise NoAnswerError(f"closed after {received[:80]!r}")
            return answer
        received += more
        if len(received) > MOST_BYTES:
            raise NoAnswerError(f"more than {MOST_BYTES} bytes")
    return answer


def _parse(received: bytes, *, ended: bool) -> Answer | None:
    """Return the first answer in the bytes received, or None while it is incomplete."""
    while received.startswith(b"HTTP/1.1 100 "):
        received = received.partition(END_OF_HEAD)[2]
    head, found, rest = received.partition(END_OF_HEAD)
    if not found or not head.startswith(b"HTTP/1."):
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    status = int(first.split(" ")[1])
    if headers.get("transfer-encoding", "").lower() == "chunked":
        whole = _joined(rest)
        return whole and Answer(status, headers, whole[0], head, whole[1])
    if "content-length" in headers:
        length = int(headers["content-length"])
        if len(rest) < length:
            # An answer to HEAD has the length of a body that is not sent.
            return Answer(status, headers, rest, head) if ended and not rest else None
        return Answer(status, headers, rest[:length], head, rest[length:])
    if status in (202, 204, 304) or ended:
        return Answer(status, headers, rest, head)
    return None


def _joined(chunks: bytes) -> tuple[bytes, bytes] | None:
    """Return the body of the chunks, and the bytes after it; None while they are incomplete."""
    body = b""
    while True:
        size, found, chunks = chunks.partition(b"\r\n")
        if not found:
            return None
        length = int(size.split(b";")[0], 16)
        if len(chunks) < length + 2:
            return None
        body, chunks = body + chunks[:length], chunks[length + 2 :]
        if length == 0:
            return body, chunks
