"""The same tools by bolt-mcp, served by django-bolt's own server, which is written in Rust."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bolt_mcp import MCP
from django.conf import settings
from django_bolt import BoltAPI

from benchmarks import tools
from benchmarks.site import stored
from benchmarks.site.structs import Article, Found, Number

api = BoltAPI()
server = MCP("benchmark", "1.0", stateless=True, json_response=True)


@server.tool(name="add", description=str(tools.add.__doc__))
async def add(a: int, b: int) -> int:
    return a + b


@server.tool(name="echo", description=str(tools.echo.__doc__))
async def echo(article: Article) -> Article:
    return article


@server.tool(name="count_users", description=str(stored.count_users.__doc__))
def count_users() -> Number:
    return Number(stored.count_users())


@server.tool(name="note", description=str(stored.note.__doc__))
def note(text: str) -> Number:
    return Number(stored.note(text))


def search(section: int) -> Callable[..., Any]:
    async def search_section(
        name: str, tags: list[str], limit: int = 10, draft: bool = True
    ) -> Found:
        return Found(name, section)

    return search_section


for each in range(tools.fillers(settings.TOOLS)):
    describe = tools.search_description(each)
    server.tool(name=tools.search_name(each), description=describe)(search(each))

api.mount_mcp(server, path="/mcp")
urlpatterns: list[Any] = []
