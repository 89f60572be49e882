"""The same tools by mcp_bridge: procedures of a django-modern-rpc server, marked."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.urls import include, path
from modernrpc import RpcServer

from benchmarks import tools
from benchmarks.site import stored
from benchmarks.site.models import Note
from mcp_bridge import mcp_tool
from mcp_bridge.tokens.models import Token

server = RpcServer()
# They only read, so that none has a transaction, as with the other contestants.
mark = mcp_tool(public=settings.PUBLIC, read_only=True)


def permitted(section: int) -> Any:
    """Mark a tool that asks for a permission of its own, where the mode is that."""
    if not settings.PERMISSIONS:
        return mark
    name = f"{Note._meta.app_label}.{tools.search_name(section)}"
    return mcp_tool(permissions=[name], read_only=True)


add = tools.add_async if settings.ASYNC else tools.add
server.register_procedure(mark(add), name="add")
server.register_procedure(mark(tools.echo), name="echo")
server.register_procedure(mark(stored.count_users), name="count_users")
server.register_procedure(mcp_tool(public=settings.PUBLIC)(stored.note), name="note")
for each in range(tools.fillers(settings.TOOLS)):
    server.register_procedure(permitted(each)(tools.search(each)), name=tools.search_name(each))


def issue_token(user: Any) -> str:
    return Token.objects.issue(user=user, name="benchmark", expires_at=None)[1]


urls = "mcp_bridge.urls_async" if settings.SITE == "lane" else "mcp_bridge.urls"
urlpatterns = [path("rpc", server.view), path("", include(urls))]
