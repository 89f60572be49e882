"""The news agency whose wire the newsroom has subscribed to, and which is down."""

from __future__ import annotations

from uuid import UUID

from modernrpc import RpcNamespace

from mcp_bridge import mcp_tool
from testproject.newsroom.procedures.access import may
from testproject.newsroom.results import ArticleSummary

procedures = RpcNamespace()

FEED = "wire-gateway.newsroom.internal:8443"


@procedures.register_procedure(name="import", auth=may("newsroom.add_article"))
@mcp_tool(
    title="Import an agency story",
    destructive=False,
    open_world=True,
    permissions="newsroom.add_article",
    scopes="news:write",
)
def import_story(story: UUID) -> ArticleSummary:
    """
    Import a story from the news agency's wire as a draft.

    The agency is out of order for the time being, so this fails, and shows how the failure of a
    procedure looks from outside.

    :param story: The agency's id of the story.
    """
    # An ordinary exception whose text is not meant for callers, as libraries raise them.
    raise ConnectionError(f"Cannot fetch {story}: {FEED} refused the connection of user newsdesk")
