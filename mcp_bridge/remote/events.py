"""Read server-sent events from the chunks of a response (HTML, "Server-sent events")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_LINE: Final = re.compile(rb"\r\n|\n|\r")
_MARK: Final = b"\xef\xbb\xbf"


class TooLong(ValueError):
    """An event is longer than allowed."""


class Event(NamedTuple):
    """An event as it came, and its data; None if it is not a message, such as a comment."""

    raw: bytes
    data: bytes | None


def read_events(chunks: Iterable[bytes], max_bytes: int) -> Iterator[Event]:
    """
    Yield each event, with its empty line, as soon as that has arrived.

    An event without an empty line at the end of the stream is not one, and is dropped. Raises
    TooLong for an event of more than ``max_bytes``, as soon as these have arrived.
    """
    # The current event, of which all before ``scanned`` is known; its current line begins at
    # ``start``.
    buffer, lines = bytearray(), list[bytes]()
    start = scanned = 0
    is_first = True
    for chunk in chunks:
        buffer += chunk
        while end := _LINE.search(buffer, scanned):
            if end[0] == b"\r" and end.end() == len(buffer):
                # A line feed may follow, which belongs to this line.
                scanned = end.start()
                break
            line = bytes(buffer[start : end.start()])
            start = scanned = end.end()
            if is_first:
                line, is_first = line.removeprefix(_MARK), False
            if line:
                lines.append(line)
                continue
            if start > max_bytes:
                raise TooLong
            if lines:
                yield Event(bytes(buffer[:start]), _data(lines))
            del buffer[:start]
            lines, start, scanned = [], 0, 0
        else:
            scanned = len(buffer)
        if len(buffer) > max_bytes:
            raise TooLong
    if lines and buffer[start:] == b"\r":
        yield Event(bytes(buffer), _data(lines))


def _data(lines: list[bytes]) -> bytes | None:
    """Return the data of an event; None without data, or if it has another type than "message"."""
    data: list[bytes] = []
    for line in lines:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event" and value not in (b"", b"message"):
            return None
    return b"\n".join(data) if data else None
