"""
The tools that every contestant serves: four that are called, and as many as a list is to have.

Here stand the plain functions, and what they are called with; those that ask the database are in
site/stored.py. Nothing here knows a framework.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass
class Author:
    name: str
    email: str
    staff: bool


@dataclass
class Paragraph:
    heading: str
    text: str
    words: int


@dataclass
class Article:
    title: str
    section: str
    score: float
    author: Author
    tags: list[str]
    paragraphs: list[Paragraph]


@dataclass
class Found:
    name: str
    count: int


def add(a: int, b: int) -> int:
    """Add two integers and return their sum."""
    return a + b


async def add_async(a: int, b: int) -> int:
    """Add two integers and return their sum."""
    return a + b


def echo(article: Article) -> Article:
    """Return the given article unchanged."""
    return article


def search(section: int) -> Callable[..., Found]:
    """Return one of the functions that only fill a list: each is listed, none is called."""

    def search_section(name: str, tags: list[str], limit: int = 10, draft: bool = True) -> Found:
        return Found(name, limit if draft else len(tags))

    search_section.__doc__ = search_description(section)
    return search_section


def search_name(section: int) -> str:
    return f"search_{section:04d}"


def search_description(section: int) -> str:
    return f"Search section {section} by name, with tags, a limit, and drafts or not."


def fillers(count: int) -> int:
    """How many tools only fill a list of ``count``."""
    return count - len(CALLED)


def names(count: int, *, permitted: bool = False) -> set[str]:
    """The names in a list of ``count`` tools; ``permitted``: of those that the user may call."""
    step = PERMITTED if permitted else 1
    return {*CALLED, *map(search_name, range(0, fillers(count), step))}


CALLED: Final = ("add", "echo", "count_users", "note")
# How many users a site has, and of how many tools with permissions the first may call one.
USERS: Final = 1000
PERMITTED: Final = 2
ARTICLE: Final[dict[str, Any]] = {
    "title": "The night train returns to the coast",
    "section": "travel",
    "score": 4.75,
    "author": {"name": "Ines Okafor", "email": "ines@example.org", "staff": True},
    "tags": ["trains", "coast", "timetable", "winter"],
    "paragraphs": [
        {
            "heading": f"Stop number {stop}",
            "text": "The line was closed for years, and now it opens again, "
            "with sleeping cars that were built for another country.",
            "words": 20 + stop,
        }
        for stop in range(5)
    ],
}
TEXT: Final = "The ferry leaves at nine."
ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "add": {"a": 20, "b": 22},
    "echo": {"article": ARTICLE},
    "count_users": {},
    "note": {"text": TEXT},
}
RESULTS: Final[dict[str, dict[str, Any]]] = {
    "add": {"result": 42},
    "echo": ARTICLE,
    "count_users": {"result": USERS},
    "note": {"result": len(TEXT)},
}
