"""The house style, for models alone: plain functions, which no other way of the site leads to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil
from typing import Annotated, Final

from pydantic import Field
from typing_extensions import TypedDict

from mcp_bridge import mcp_tool, mcp_toolset

MOST_WORDS: Final = 30
WORDS_A_MINUTE: Final = 220
# What to write instead, by what readers have complained of.
AVOIDED: Final = {"utilise": "use", "prior to": "before", "in order to": "to", "very": ""}

Text = Annotated[str, Field(description="The text, in Markdown.", max_length=100_000)]


class Finding(TypedDict):
    """One place in a text that the house style would have otherwise."""

    line: int
    rule: str
    advice: str


class Length(TypedDict):
    words: int
    sentences: int
    minutes: int


@mcp_toolset(read_only=True, permissions="newsroom.add_article", scopes="news:read")
class Style:
    @mcp_tool(title="Check the house style")
    def check(self, text: Text) -> list[Finding]:
        """
        Find what in a text breaks the house style; an empty list means that it is fine.

        Use it before articles_submit.
        """
        return [
            found for line, each in enumerate(text.splitlines(), 1) for found in _in(line, each)
        ]

    @mcp_tool(title="Measure a text")
    def measure(self, text: Text) -> Length:
        """Count the words and sentences of a text, and the minutes that it takes to read."""
        words = len(text.split())
        sentences = len(_sentences(text))
        return {"words": words, "sentences": sentences, "minutes": ceil(words / WORDS_A_MINUTE)}


def _sentences(text: str) -> list[str]:
    return [each for each in re.split(r"(?<=[.!?])\s+", text) if each.strip()]


def _in(line: int, text: str) -> Iterator[Finding]:
    for sentence in _sentences(text):
        count = len(sentence.split())
        if count > MOST_WORDS:
            advice = f"Make two of it: {count} words, and {MOST_WORDS} are enough."
            yield {"line": line, "rule": "long sentence", "advice": advice}
    if "!" in text:
        yield {"line": line, "rule": "exclamation mark", "advice": "Say it with a full stop."}
    for avoided, better in AVOIDED.items():
        if re.search(rf"\b{avoided}\b", text, re.IGNORECASE):
            advice = f"Write {better!r} for {avoided!r}." if better else f"Leave {avoided!r} out."
            yield {"line": line, "rule": "avoided word", "advice": advice}
