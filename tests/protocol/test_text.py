from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge.protocol.text import (
    cut,
    harmless,
    nul_places,
    pointer,
    printable,
    quoted,
    storable,
    without_unprintable,
)


@pytest.mark.parametrize(("length", "kept"), [(63, 63), (64, 64), (65, 64), (10**5, 64)])
def test_long_text_is_cut(length: int, kept: int) -> None:
    assert cut("x" * length) == "x" * kept + "…" * (length > 64)
    assert cut("x" * 5, 4) == "xxxx…"


def test_text_is_quoted_in_one_printable_line() -> None:
    assert quoted("a\r\n\x1b") == r"'a\r\n\x1b'"
    assert quoted("x" * 65) == f"'{'x' * 64}…'"
    # Escapes are longer than the characters they replace.
    assert quoted("\0" * 64) == "'" + r"\x00" * 19 + r"\x0" + "…"


@pytest.mark.parametrize(
    ("value", "length", "stored"),
    [
        ("a\0b", None, "a\ufffdb"),
        ("a\ud800", None, "a?"),
        ("abc", 2, "ab"),
        ("é", 1, "é"),
        (None, None, ""),
        (5, 9, ""),
    ],
)
def test_text_is_made_acceptable_to_every_database(
    value: Any, length: int | None, stored: str
) -> None:
    assert storable(value, length) == stored


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ([], ""),
        (["a", 0, "b"], "/a/0/b"),
        (["a/b", "~", "~1", ""], "/a~1b/~0/~01/"),
        (["x" * 256], "/" + "x" * 256),
        (["x" * 257, 1], "/" + "x" * 64 + "…/1"),
    ],
)
def test_place_is_a_json_pointer(place: list[str | int], text: str) -> None:
    assert pointer(place) == text


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ("a", []),
        ("a\0", [()]),
        ({"a": ["b", "\0", {"c": "\0d"}], "e": 1}, [("a", 1), ("a", 2, "c")]),
        # For an object with such a name, the pointer stops at the object.
        ({"a": {"\0": "\0"}, "b": None}, [("a",)]),
        ([["\0"], True, 1.5], [(0, 0)]),
    ],
)
def test_each_text_with_a_nul_is_found(value: Any, places: list[Any]) -> None:
    assert [tuple(place) for place in nul_places(value)] == places


def test_terminal_and_direction_controls_are_replaced() -> None:
    steering = "\0\x1b[31m\x9b\x7f\u202e\u2066\u061c"
    assert (
        harmless(f"a\tb\n{steering}é\u00a0") == "a\tb\n\ufffd\ufffd[31m" + 5 * "\ufffd" + "é\u00a0"
    )
    assert without_unprintable("a b\n\u202eé") == "a b\ufffd\ufffdé"


@pytest.mark.parametrize(
    "blank", "\u034f\u115f\u1160\u17b5\u180b\u2800\u3164\ufe0f\uffa0\U000e0100"
)
def test_invisible_characters_are_treated_as_unprintable(blank: str) -> None:
    escape = blank.encode("unicode_escape").decode()
    assert without_unprintable(f"é{blank}") == "é\ufffd"
    assert printable(f"é{blank}") == f"é{escape}"
    assert quoted(f"é{blank}") == f"'é{escape}'"
    assert printable("a\n\u202e\ud800'\\") == r"a\n\u202e\ud800'" + "\\"
