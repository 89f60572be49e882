"""Texts of others in messages of ours: cut, quoted, and as JSON pointers."""

from __future__ import annotations

from collections.abc import Iterable


def cut(text: str, length: int = 64) -> str:
    """The text, cut so that an answer never repeats more than that of what was sent."""
    return text if len(text) <= length else text[:length] + "…"


def quoted(text: str) -> str:
    """The text in quotation marks, cut and without a character that does not show."""
    return cut(repr(cut(text)), 80)


def pointer(place: Iterable[str | int]) -> str:
    """A place in a value as a JSON pointer (RFC 6901), in which long names are cut."""
    escaped = (cut(str(each)).replace("~", "~0").replace("/", "~1") for each in place)
    return "".join(f"/{each}" for each in escaped)
