"""The same tools by mcp_bridge: procedures of a django-modern-rpc server, marked."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.urls import include, path
from modernrpc import RpcServer

from benchmarks import tools
from mcp_bridge import mcp_tool
from mcp_bridge.tokens.models import Token

server = RpcServer()
# They only read, so that none has a transaction, as with the other contestants.
mark = mcp_tool(public=settings.PUBLIC, read_only=True)

server.register_procedure(mark(tools.add), name="add")
server.register_procedure(mark(tools.echo), name="echo")
for each in range(settings.TOOLS - 2):
    server.register_procedure(mark(tools.search(each)), name=tools.search_name(each))


def issue_token(user: Any) -> str:
    return Token.objects.issue(user=user, name="benchmark", expires_at=None)[1]


urlpatterns = [path("rpc", server.view), path("", include("mcp_bridge.urls"))]
