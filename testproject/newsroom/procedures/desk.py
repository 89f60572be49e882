"""The news desk: how things stand, and who is asking."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Count
from django.utils import timezone
from modernrpc import RpcNamespace, RpcRequestContext
from typing_extensions import TypedDict

from mcp_bridge import Context, mcp_tool
from testproject.newsroom.models import Article, Author
from testproject.newsroom.procedures.access import may

procedures = RpcNamespace()


class Brief(TypedDict):
    articles: dict[Article.Status, int]
    waiting_for_review: list[str]
    latest: str | None
    as_of: datetime


class Caller(TypedDict):
    username: str
    roles: list[str]
    author: str | None
    revision: str | None
    client: str | None


class Contact(TypedDict):
    byline: str
    email: str


@procedures.register_procedure(name="brief", auth=may("newsroom.view_unpublished_article"))
@mcp_tool(
    title="Morning brief",
    read_only=True,
    permissions="newsroom.view_unpublished_article",
    scopes="news:read",
)
async def morning_brief() -> Brief:
    """
    Sum up the desk: how many articles are at each step, what waits for review, what came last.

    Use it to begin an editor's day. The slugs under waiting_for_review can be read with
    articles_get and published with articles_publish; the oldest comes first.
    """
    counts = Article.objects.order_by().values("status").annotate(count=Count("pk"))
    review = Article.objects.filter(status=Article.Status.REVIEW).order_by("updated_at", "slug")
    latest = await Article.objects.published().order_by("-published_at", "slug").afirst()
    return {
        "articles": {Article.Status(row["status"]): row["count"] async for row in counts},
        "waiting_for_review": [slug async for slug in review.values_list("slug", flat=True)[:10]],
        "latest": latest.slug if latest else None,
        "as_of": timezone.now(),
    }


@procedures.register_procedure(name="whoami", context_target="ctx")
@mcp_tool(title="Who am I", read_only=True)
def who_am_i(mcp: Context | None = None, *, ctx: RpcRequestContext) -> Caller:
    """
    Tell who you are to the newsroom: your user, your roles and the name that signs your articles.

    Use it when a tool you expect is missing or refuses: your roles decide what you may do.
    """
    user = ctx.request.user
    author = Author.objects.filter(user=user).first()
    # At /rpc nobody fills in the context of MCP, and a caller could send anything in its place.
    context = mcp if isinstance(mcp, Context) else None
    return {
        "username": user.get_username(),
        "roles": list(user.groups.order_by("name").values_list("name", flat=True)),
        "author": author.byline if author else None,
        "revision": str(context.revision) if context else None,
        "client": context.client.info.get("name") if context else None,
    }


@procedures.register_procedure(name="contacts", auth=may("newsroom.change_author"))
def list_contacts() -> list[Contact]:
    """List the e-mail addresses of the authors. Not a tool: they are for colleagues only."""
    authors = Author.objects.select_related("user")
    return [{"byline": author.byline, "email": author.user.email} for author in authors]


@procedures.register_procedure(name="ping", auth=None)
def ping() -> str:
    """Answer "pong". Not a tool: it is for the monitoring of the site."""
    return "pong"
