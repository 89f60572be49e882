"""Clean received text for messages and databases: cut, quote, escape; build JSON pointers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

# Characters that control a terminal or the text direction, except tabs and newlines.
_STEERING: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
# Characters that are printable to Python but invisible on a page (Unicode, Default_Ignorable).
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# Names that people write are never longer.
_LONGEST_NAME: Final = 256


def cut(text: str, length: int = 64) -> str:
    """Return the first ``length`` characters and an ellipsis, or the text if it is not longer."""
    return text if len(text) <= length else text[:length] + "…"


def quoted(text: str) -> str:
    """Return the text in quotation marks, cut, with unprintable characters escaped."""
    return cut(printable(repr(cut(text))), 80)


def shows(character: str) -> bool:
    """Return whether a character is visible, and breaks neither the line nor its direction."""
    return character.isprintable() and _BLANK.match(character) is None


def printable(text: str) -> str:
    """Return the text with invisible and direction-changing characters escaped."""
    # Not with repr(), which keeps all characters that are printable to Python.
    return "".join(each if shows(each) else each.encode("unicode_escape").decode() for each in text)


def without_unprintable(text: str) -> str:
    """Return the text with each invisible character replaced; the length is unchanged."""
    return "".join(each if shows(each) else "\ufffd" for each in text)


def harmless(text: str) -> str:
    """Return the text with each control character for a display replaced."""
    return _STEERING.sub("\ufffd", text)


def storable(value: object, length: int | None = None) -> str:
    """Return a str that any database accepts, cut to ``length``; "" for any other type."""
    text = value if isinstance(value, str) else ""
    return text[:length].encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def pointer(place: Iterable[str | int]) -> str:
    """Return the path of a value as a JSON pointer (RFC 6901) with overlong names cut."""
    names = (name if len(name) <= _LONGEST_NAME else cut(name) for name in map(str, place))
    return "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in names)


def nul_places(value: object, place: tuple[str | int, ...] = ()) -> Iterator[Sequence[str | int]]:
    """Yield the paths in a JSON value of strings with a NUL, and of objects with such a name."""
    if isinstance(value, str):
        if "\0" in value:
            yield place
    elif isinstance(value, Mapping):
        for name, each in value.items():
            # Such a name cannot be part of a response either.
            found = [place] if "\0" in name else nul_places(each, (*place, name))
            yield from found
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from nul_places(each, (*place, index))
