"""
The tools that every contestant serves: two that are called, and as many more as a list is to have.

Here stand the plain functions, what they are called with, and their definitions by hand, for the
contestant that generates none. Nothing here knows a framework.
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


def names(count: int) -> set[str]:
    """The names of the tools in a list of ``count``."""
    return {"add", "echo", *map(search_name, range(count - 2))}


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
ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "add": {"a": 20, "b": 22},
    "echo": {"article": ARTICLE},
}
RESULTS: Final[dict[str, dict[str, Any]]] = {"add": {"result": 42}, "echo": ARTICLE}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    """An object schema; a property with a default is not required."""
    required = [name for name, schema in properties.items() if "default" not in schema]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_STRING: Final = {"type": "string"}
_INTEGER: Final = {"type": "integer"}
_BOOLEAN: Final = {"type": "boolean"}
_ARTICLE: Final = _object(
    title=_STRING,
    section=_STRING,
    score={"type": "number"},
    author=_object(name=_STRING, email=_STRING, staff=_BOOLEAN),
    tags=_array(_STRING),
    paragraphs=_array(_object(heading=_STRING, text=_STRING, words=_INTEGER)),
)


def definitions(count: int) -> list[dict[str, Any]]:
    """The definitions of ``count`` tools, written by hand."""

    def definition(name: str, text: Any, takes: Any, gives: Any) -> dict[str, Any]:
        return {"name": name, "description": text, "inputSchema": takes, "outputSchema": gives}

    takes = _object(
        name=_STRING,
        tags=_array(_STRING),
        limit={"type": "integer", "default": 10},
        draft={"type": "boolean", "default": True},
    )
    gives = _object(name=_STRING, count=_INTEGER)
    total = _object(result=_INTEGER)
    return [
        definition("add", add.__doc__, _object(a=_INTEGER, b=_INTEGER), total),
        definition("echo", echo.__doc__, _object(article=_ARTICLE), _ARTICLE),
        *(
            definition(search_name(each), search_description(each), takes, gives)
            for each in range(count - 2)
        ),
    ]
