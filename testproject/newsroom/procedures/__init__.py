"""
The procedures of the newsroom: all served at /rpc, those marked with @mcp_tool also at /mcp.

At /rpc a caller has to be signed in to the site; ``auth=None`` opens a procedure to everybody, and
``auth=may(...)`` asks for a permission. At /mcp the mark decides: ``permissions=`` names what the
user needs.
"""

from __future__ import annotations

from modernrpc import Protocol, RpcServer

from testproject.newsroom.procedures import (
    archive,
    articles,
    comments,
    desk,
    editing,
    media,
    sections,
    statistics,
    wire,
)
from testproject.newsroom.procedures.access import signed_in

server = RpcServer(auth=signed_in, supported_protocol=Protocol.JSON_RPC)
server.register_namespace(articles.procedures, "articles")
server.register_namespace(editing.procedures, "articles")
server.register_namespace(comments.procedures, "comments")
server.register_namespace(media.procedures, "media")
server.register_namespace(sections.procedures, "sections")
server.register_namespace(statistics.procedures, "statistics")
server.register_namespace(archive.procedures, "archive")
server.register_namespace(wire.procedures, "wire")
server.register_namespace(desk.procedures, "desk")
