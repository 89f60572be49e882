"""The arguments and results of the tools as structs of msgspec, for those that take them."""

from __future__ import annotations

import msgspec


class AddParams(msgspec.Struct):
    a: int
    b: int


class Number(msgspec.Struct):
    result: int


class Author(msgspec.Struct):
    name: str
    email: str
    staff: bool


class Paragraph(msgspec.Struct):
    heading: str
    text: str
    words: int


class Article(msgspec.Struct):
    title: str
    section: str
    score: float
    author: Author
    tags: list[str]
    paragraphs: list[Paragraph]


class EchoParams(msgspec.Struct):
    article: Article


class NoteParams(msgspec.Struct):
    text: str


class SearchParams(msgspec.Struct):
    name: str
    tags: list[str]
    limit: int = 10
    draft: bool = True


class Found(msgspec.Struct):
    name: str
    count: int
