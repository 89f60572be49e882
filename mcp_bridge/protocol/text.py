"""Text that was received, for messages and databases: cut, quoted, cleaned, as JSON pointers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# No name that people write is longer.
_LONGEST_NAME: Final = 256


def cut(text: str, length: int = 64) -> str:
    """Return the first ``length`` characters and an ellipsis, or the text if it is not longer."""
    return text if len(text) <= length else text[:length] + "…"


def quoted(text: str) -> str:
    """Return the text in quotation marks, cut, with unprintable characters escaped."""
    return cut(repr(cut(text)), 80)


def storable(value: object, length: int | None = None) -> str:
    """Return a text as any database takes it, cut to a length; of anything else the empty text."""
    text = value if isinstance(value, str) else ""
    return text[:length].encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def pointer(place: Iterable[str | int]) -> str:
    """Return the path of a value as a JSON pointer (RFC 6901), in which overlong names are cut."""
    names = (name if len(name) <= _LONGEST_NAME else cut(name) for name in map(str, place))
    return "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in names)
