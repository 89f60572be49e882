"""Server-sent events are the same however they arrive."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge.remote.events import Event, TooLong, read_events

MARK = b"\xef\xbb\xbf"
LINES = st.sampled_from(
    [
        *(b"data: one", b"data:two", b"data", b"data:  spaced", b"data: \xc3\xb8", b": comment"),
        *(b"event: message", b"event:", b"event: other", b"id: 7", b"retry: 10", b"unknown", b""),
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    lines = draw(st.lists(st.tuples(LINES, ENDS), max_size=12))
    rest = draw(st.sampled_from([b"", b"data: unfinished"]))
    return draw(st.sampled_from([b"", MARK])) + b"".join(map(b"".join, lines)) + rest


@st.composite
def chunks(draw: st.DrawFn, whole: bytes) -> list[bytes]:
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    return [whole[one:other] for one, other in zip([0, *cuts], [*cuts, None], strict=True)]


def data_in(*given: bytes, most: int = 1000) -> list[bytes | None]:
    return [each.data for each in read_events(given, most)]


def expected(whole: bytes) -> Iterator[bytes]:
    """Yield the data of each message, by the rules of HTML applied to the whole text."""
    text = re.sub(rb"\r\n?", b"\n", whole.removeprefix(MARK))
    for block in re.findall(rb"(?:[^\n]+\n)+\n", text):
        fields = [line.partition(b":") for line in block.split(b"\n") if line]
        types = [value.strip() for name, _, value in fields if name == b"event"]
        data = [value.removeprefix(b" ") for name, _, value in fields if name == b"data"]
        if data and b"other" not in types:
            yield b"\n".join(data)


@given(st.data())
def test_events_do_not_depend_on_the_chunks(data: st.DataObject) -> None:
    whole = data.draw(streams())
    events = list(read_events([whole], 1000))
    assert list(read_events(data.draw(chunks(whole)), 1000)) == events
    assert [each.data for each in events if each.data is not None] == list(expected(whole))
    # Only empty lines between the events and an unfinished one are left out.
    assert b"".join(each.raw for each in events).strip() in whole


@given(st.data(), st.integers(0, 30))
def test_bound_does_not_depend_on_the_chunks(data: st.DataObject, most: int) -> None:
    whole = data.draw(streams())

    def read(given: list[bytes]) -> tuple[list[Event], bool]:
        found: list[Event] = []
        try:
            found.extend(iter(read_events(given, most)))
        except TooLong:
            return found, True
        return found, False

    # Events before the one that is too long are read.
    assert read(data.draw(chunks(whole))) == read([whole])


def test_event_is_read_as_soon_as_it_is_complete() -> None:
    taken: list[bytes] = []

    def arriving() -> Iterator[bytes]:
        for each in (b"data: 1\n", b"\n", b"data: 2\r\n\r", b"\n"):
            taken.append(each)
            yield each

    events = read_events(arriving(), 100)
    assert next(events) == Event(b"data: 1\n\n", b"1")
    assert len(taken) == 2
    assert next(events) == Event(b"data: 2\r\n\r\n", b"2")


@pytest.mark.parametrize(
    ("whole", "data"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data: a\r\n\r\n", [b"a"]),
        (b"data: a\r\r", [b"a"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data\n\n", [b""]),
        (b"data:  a\n\n", [b" a"]),
        (b": comment\n\n", [None]),
        (b": comment\ndata: a\n\n", [b"a"]),
        (b"event: message\ndata: a\n\n", [b"a"]),
        (b"event:\ndata: a\n\n", [b"a"]),
        (b"event: endpoint\ndata: a\n\n", [None]),
        (b"id: 1\nretry: 5\n\n", [None]),
        (MARK + b"data: a\n\n", [b"a"]),
        (b"data: a\n\n" + MARK + b"data: b\n\n", [b"a", None]),
        (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"data: a\n", []),
        (b"data: a", []),
        (b"", []),
    ],
)
def test_events_follow_the_rules_of_html(whole: bytes, data: list[bytes | None]) -> None:
    assert data_in(whole) == data
    assert data_in(*(bytes([each]) for each in whole)) == data


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_longest_event_may_have_so_many_bytes(end: bytes) -> None:
    whole = b"data: abc" + end + end
    assert data_in(whole, whole, most=len(whole)) == [b"abc", b"abc"]
    with pytest.raises(TooLong):
        data_in(whole, most=len(whole) - 1)


def test_event_that_grows_too_long_is_not_read_on() -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(101):
            yield b"x" * 10
        raise AssertionError("the reader goes on")

    with pytest.raises(TooLong):
        list(read_events(endless(), 1000))
