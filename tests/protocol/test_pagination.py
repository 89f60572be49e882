from __future__ import annotations

import base64
from typing import Any

import pytest

from mcp_bridge.protocol import InvalidParamsError, pagination


def encoded(raw: bytes | str) -> str:
    content = raw.encode() if isinstance(raw, str) else raw
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


@pytest.mark.parametrize("name", ["a", "articles_list", "A-b.c_9", "x" * 128, "0", "12"])
def test_cursor_returns_the_name_it_was_made_of(name: str) -> None:
    assert pagination.position(pagination.after(name)) == name


@pytest.mark.parametrize("name", ["a", "ab", "abc", "articles_list"])
def test_cursor_is_url_safe_and_not_padded(name: str) -> None:
    assert pagination.after(name).replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize(
    ("cursor", "offset"),
    [("MA", 0), ("MA==", 0), ("NTA", 50), ("NTA=", 50), ("OTk5OTk5OTk5", 999999999)],
)
def test_decimal_offset_is_understood_padded_or_not(cursor: str, offset: int) -> None:
    assert pagination.position(cursor) == offset


@pytest.mark.parametrize(
    "text",
    ["-1", "+5", " 5", "5 ", "5_0", "1.5", "0x1", "1e3", "5\n", "\u0661", "\u00b2", "9999999999"]
    + ["", ">", "a", "<a", "a>b", '{"offset":-1}', "null"],
)
def test_encoded_text_that_is_not_a_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidParamsError, match="Invalid cursor"):
        pagination.position(encoded(text))


@pytest.mark.parametrize(
    "cursor",
    ["", "=", "==", "====", "A", "MA===", "M A", "MA\n", " MA", "MA ", "M=A", "!!!!", "é"]
    + ["MA.", "MA\x00", "?cursor=MA", "x" * 10**6, encoded(b">\xff"), encoded(b"\x80\x04\x95")],
)
def test_cursor_outside_of_base64_text_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidParamsError, match="Invalid cursor"):
        pagination.position(cursor)


@pytest.mark.parametrize(
    "cursor", [None, 0, 50, True, 1.5, [], ["MA"], {}, {"cursor": "MA"}, b"MA"]
)
def test_cursor_that_is_not_a_string_is_refused(cursor: Any) -> None:
    with pytest.raises(InvalidParamsError, match="Invalid cursor"):
        pagination.position(cursor)


@pytest.mark.parametrize(
    "cursor", ["MA=", "MB", "MP", "NTB", "NTB=", "NTA==", "MTIz=", "PmB", "PmH"]
)
def test_other_spelling_of_the_same_bytes_is_refused(cursor: str) -> None:
    """Base64 leaves bits unused at the end, and its padding is whole or none."""
    with pytest.raises(InvalidParamsError, match="Invalid cursor"):
        pagination.position(cursor)


@pytest.mark.parametrize("cursor", ["PnAANDk", "PgA", "PiA", "PiBh", "PuKCrA"])
def test_cursor_of_an_impossible_name_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidParamsError, match="Invalid cursor"):
        pagination.position(cursor)


@pytest.mark.parametrize("name", ["x" * 129, "a b", "a/b", "a:b", "a\n", "a\0", "ä", ""])
def test_only_the_name_of_a_tool_is_a_position(name: str) -> None:
    with pytest.raises(InvalidParamsError, match="Invalid cursor"):
        pagination.position(pagination.after(name))


def test_refused_cursor_is_an_error_with_status_200() -> None:
    with pytest.raises(InvalidParamsError) as raised:
        pagination.position("")
    assert (raised.value.code, raised.value.http_status) == (-32602, 200)
