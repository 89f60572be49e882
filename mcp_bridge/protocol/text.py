"""Text that was received, for messages and databases: cut, quoted, cleaned, as JSON pointers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

# What steers a terminal, or turns round what follows; but for tabs and new lines.
_STEERING: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
# Characters that Python takes to be printable, though a page shows nothing of them (Unicode,
# Default_Ignorable).
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# No name that people write is longer.
_LONGEST_NAME: Final = 256


def cut(text: str, length: int = 64) -> str:
    """Return the first ``length`` characters and an ellipsis, or the text if it is not longer."""
    return text if len(text) <= length else text[:length] + "…"


def quoted(text: str) -> str:
    """Return the text in quotation marks, cut, with unprintable characters escaped."""
    return cut(printable(repr(cut(text))), 80)


def shows(character: str) -> bool:
    """Return whether people see a character, which neither breaks a line nor turns it round."""
    return character.isprintable() and _BLANK.match(character) is None


def printable(text: str) -> str:
    """Return the text with characters escaped that do not show, or that turn its direction."""
    # Not by repr(), which keeps what Python takes to be printable.
    return "".join(each if shows(each) else each.encode("unicode_escape").decode() for each in text)


def without_unprintable(text: str) -> str:
    """Return the text, as long as it was, with a replacement for what does not show."""
    return "".join(each if shows(each) else "\ufffd" for each in text)


def harmless(text: str) -> str:
    """Return the text with a replacement for each character that steers what shows it."""
    return _STEERING.sub("\ufffd", text)


def storable(value: object, length: int | None = None) -> str:
    """Return a text as any database takes it, cut to a length; of anything else the empty text."""
    text = value if isinstance(value, str) else ""
    return text[:length].encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def pointer(place: Iterable[str | int]) -> str:
    """Return the path of a value as a JSON pointer (RFC 6901), in which overlong names are cut."""
    names = (name if len(name) <= _LONGEST_NAME else cut(name) for name in map(str, place))
    return "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in names)


def nul_places(value: object, place: tuple[str | int, ...] = ()) -> Iterator[Sequence[str | int]]:
    """Yield the places in a JSON value of texts with a NUL, and of objects with such a name."""
    if isinstance(value, str):
        if "\0" in value:
            yield place
    elif isinstance(value, Mapping):
        for name, each in value.items():
            # No answer can show such a name either.
            found = [place] if "\0" in name else nul_places(each, (*place, name))
            yield from found
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from nul_places(each, (*place, index))
