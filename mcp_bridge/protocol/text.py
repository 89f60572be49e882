"""Text that was received, for use in messages: cut, quoted, and as JSON pointers."""

from __future__ import annotations

from collections.abc import Iterable


def cut(text: str, length: int = 64) -> str:
    """Return the first ``length`` characters and an ellipsis, or the text if it is not longer."""
    return text if len(text) <= length else text[:length] + "…"


def quoted(text: str) -> str:
    """Return the text in quotation marks, cut, with unprintable characters escaped."""
    return cut(repr(cut(text)), 80)


def pointer(place: Iterable[str | int]) -> str:
    """Return the path of a value as a JSON pointer (RFC 6901), in which long names are cut."""
    escaped = (cut(str(each)).replace("~", "~0").replace("/", "~1") for each in place)
    return "".join(f"/{each}" for each in escaped)
