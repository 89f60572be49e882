"""The news agency whose wire the newsroom has subscribed to, and which is down."""

from __future__ import annotations

import time
from typing import Annotated
from uuid import UUID

from modernrpc import RpcNamespace, RpcRequestContext
from pydantic import Field
from typing_extensions import TypedDict

from mcp_bridge import Context, ToolError, mcp_tool
from testproject.newsroom import workflow
from testproject.newsroom.models import Section
from testproject.newsroom.procedures.access import may

procedures = RpcNamespace()

FEED = "wire-gateway.newsroom.internal:8443"
BODY = "A story of the news agency. It has not been edited."


class Imported(TypedDict):
    drafts: int
    newest: str


@procedures.register_procedure(
    name="import", auth=may("newsroom.add_article"), context_target="ctx"
)
@mcp_tool(
    title="Import agency stories",
    destructive=False,
    open_world=True,
    permissions="newsroom.add_article",
    scopes="news:write",
    timeout=60,
    task=True,
)
def import_stories(
    story: UUID | None = None,
    copies: Annotated[int, Field(ge=0, le=200)] = 0,
    mcp: Context | None = None,
    *,
    ctx: RpcRequestContext,
) -> Imported:
    """
    Import stories of the news agency as drafts: one from its wire, or copies sent before.

    The wire is out of order for the time being, so importing from it fails, and shows how the
    failure of a procedure looks from outside.

    :param story: The agency's id of the story.
    :param copies: How many of the copies to import, up to 200; takes some seconds.
    """
    if story is not None:
        # An ordinary exception whose text is not meant for callers, as libraries raise them.
        raise ConnectionError(f"Cannot fetch {story}: {FEED} refused the connection of newsdesk")
    if not copies:
        raise ToolError("Say which story to import, or how many copies.")
    section = Section.objects.order_by("pk")[0]
    for number in range(1, copies + 1):
        title = f"Agency copy {number} of {copies}"
        draft = workflow.draft(ctx.request.user, title=title, section=section, body=BODY)
        # The agency allows no more than 25 a second.
        time.sleep(0.04)
        if isinstance(mcp, Context):
            mcp.progress(number, copies, title)
    return Imported(drafts=copies, newest=draft.slug)
