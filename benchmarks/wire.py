"""
The client: keep-alive connections on raw sockets, and closed-loop load over them.

One thread of one process, standard library only, so that its own cost is small, known, and the same
for every contestant.
"""

from __future__ import annotations

import json
import selectors
import socket
import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

REVISION: Final = "2026-07-28"
META: Final = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
OK: Final = b"HTTP/1.1 200"
# A server that builds thousands of tools for its first answer takes its time.
TIMEOUT: Final = 120.0
END_OF_HEAD: Final = b"\r\n\r\n"
END_OF_CHUNKS: Final = b"0\r\n\r\n"
LENGTH: Final = "content-length"


class UnexpectedAnswerError(Exception):
    """An answer that is not the one which was verified."""


class WrongAnswerError(Exception):
    """A contestant does not do what is to be measured."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read in full; ``size`` counts its head as well."""

    status: int
    body: bytes
    size: int

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, and the size of the verified answer to it: every later one has the same."""

    request: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Load:
    """What a closed loop achieved: requests per second, and how busy the client was (0 to 1)."""

    requests: int
    seconds: float
    client: float


class Connection:
    """A connection that is kept alive, for one request at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(1 << 20))
        self._missing = 0
        self._turn = 0

    def close(self) -> None:
        self.socket.close()

    def ask(self, request: bytes) -> Answer:
        """Send any request and read the answer, which has a length or comes in chunks."""
        self.socket.sendall(request)
        head, _, body = self._read_until(END_OF_HEAD).partition(END_OF_HEAD)
        lines = head.decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:])
        chunked = LENGTH not in fields
        while not body.endswith(END_OF_CHUNKS) if chunked else len(body) < int(fields[LENGTH]):
            body += self._receive()
        size = len(head) + len(END_OF_HEAD) + len(body)
        body = joined(body) if chunked else body
        return Answer(status=int(lines[0].split(" ")[1]), body=body, size=size)

    def _read_until(self, end: bytes) -> bytes:
        data = self._receive()
        while end not in data:
            data += self._receive()
        return data

    def _receive(self) -> bytes:
        data = self.socket.recv(1 << 20)
        if not data:
            raise UnexpectedAnswerError("The server has closed the connection.")
        return data

    def send_next(self, exchanges: Sequence[Exchange]) -> None:
        """Send the request whose turn it is on this connection."""
        exchange = exchanges[self._turn]
        self._turn = (self._turn + 1) % len(exchanges)
        self._missing = -exchange.size
        self.socket.sendall(exchange.request)

    def is_answered(self) -> bool:
        """Read what has arrived; true when that completes the answer."""
        count = self.socket.recv_into(self._buffer)
        if self._missing < 0:
            self._missing = -self._missing
            if bytes(self._buffer[: len(OK)]) != OK:
                raise UnexpectedAnswerError(bytes(self._buffer[: min(count, 300)]))
        self._missing -= count
        if count == 0 or self._missing < 0:
            raise UnexpectedAnswerError("The answer differs in length from the verified one.")
        return self._missing == 0


def joined(data: bytes) -> bytes:
    """The content of an answer that came in chunks."""
    content = b""
    while data != END_OF_CHUNKS:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        content, data = content + data[:length], data[length + 2 :]
    return content


def load(port: int, exchanges: Sequence[Exchange], seconds: float, width: int) -> Load:
    """
    Keep ``width`` connections busy, each sending its next request when it has its answer.

    All requests that were sent are waited for and counted, so that none of them is left to the
    server while another is measured.
    """
    connections = [Connection(port) for _ in range(width)]
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        used, start = time.process_time(), time.perf_counter()
        for connection in connections:
            connection.send_next(exchanges)
        requests, waiting, now = 0, width, start
        while waiting:
            ready = selector.select(TIMEOUT)
            if not ready:
                raise UnexpectedAnswerError("No answer came in time.")
            now = time.perf_counter()
            for key, _ in ready:
                if key.data.is_answered():
                    requests += 1
                    if now - start < seconds:
                        key.data.send_next(exchanges)
                    else:
                        waiting -= 1
        elapsed, used = now - start, time.process_time() - used
    for connection in connections:
        connection.close()
    return Load(requests=requests, seconds=elapsed, client=used / elapsed)


def latency(port: int, exchanges: Sequence[Exchange], seconds: float) -> float:
    """The median time in µs of all ``exchanges``, one after another, with no other load."""
    times: list[int] = []
    with closing(Connection(port)) as connection:
        end = time.perf_counter_ns() + int(seconds * 1e9)
        while not times or time.perf_counter_ns() < end:
            start = time.perf_counter_ns()
            for _ in exchanges:
                connection.send_next(exchanges)
                while not connection.is_answered():
                    pass
            times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1000
