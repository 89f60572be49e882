"""The same tools by django-mcpz, in its own idiom: msgspec structs and its bearer tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest
from django.urls import path
from django_mcpz.bearer_tokens.auth import token_auth
from django_mcpz.bearer_tokens.models import Token
from django_mcpz.server import MCPServer, public

from benchmarks import tools
from benchmarks.site import stored
from benchmarks.site.models import Note
from benchmarks.site.structs import (
    AddParams,
    Article,
    EchoParams,
    Found,
    NoteParams,
    Number,
    SearchParams,
)

server = MCPServer(name="benchmark", version="1.0", auth=public if settings.PUBLIC else token_auth)


@server.tool(description=str(tools.add.__doc__))
def add(request: HttpRequest, params: AddParams) -> Number:
    return Number(tools.add(params.a, params.b))


@server.tool(description=str(tools.echo.__doc__))
def echo(request: HttpRequest, params: EchoParams) -> Article:
    return params.article


@server.tool(description=str(stored.count_users.__doc__))
def count_users(request: HttpRequest) -> Number:
    return Number(stored.count_users())


@server.tool(description=str(stored.note.__doc__))
@transaction.atomic
def note(request: HttpRequest, params: NoteParams) -> Number:
    return Number(stored.note(params.text))


def search(section: int) -> Callable[..., Found]:
    def search_section(request: HttpRequest, params: SearchParams) -> Found:
        return Found(params.name, section)

    return search_section


for each in range(tools.fillers(settings.TOOLS)):
    name = tools.search_name(each)
    server.tool(
        name=name,
        description=tools.search_description(each),
        permission=f"{Note._meta.app_label}.{name}" if settings.PERMISSIONS else None,
    )(search(each))


def issue_token(user: Any) -> str:
    return Token.create(name="benchmark", user=user)[1]


urlpatterns = [path("mcp", server)]
