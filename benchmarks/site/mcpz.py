"""The same tools by django-mcpz, in its own idiom: msgspec structs and its bearer tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from django.conf import settings
from django.http import HttpRequest
from django.urls import path
from django_mcpz.bearer_tokens.auth import token_auth
from django_mcpz.bearer_tokens.models import Token
from django_mcpz.server import MCPServer, public

from benchmarks import tools

server = MCPServer(name="benchmark", version="1.0", auth=public if settings.PUBLIC else token_auth)


class AddParams(msgspec.Struct):
    a: int
    b: int


class Sum(msgspec.Struct):
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


class SearchParams(msgspec.Struct):
    name: str
    tags: list[str]
    limit: int = 10
    draft: bool = True


class Found(msgspec.Struct):
    name: str
    count: int


@server.tool(description=str(tools.add.__doc__))
def add(request: HttpRequest, params: AddParams) -> Sum:
    return Sum(tools.add(params.a, params.b))


@server.tool(description=str(tools.echo.__doc__))
def echo(request: HttpRequest, params: EchoParams) -> Article:
    return params.article


def search(section: int) -> Callable[..., Found]:
    def search_section(request: HttpRequest, params: SearchParams) -> Found:
        return Found(params.name, section)

    return search_section


for each in range(settings.TOOLS - 2):
    describe = tools.search_description(each)
    server.tool(name=tools.search_name(each), description=describe)(search(each))


def issue_token(user: Any) -> str:
    return Token.create(name="benchmark", user=user)[1]


urlpatterns = [path("mcp", server)]
