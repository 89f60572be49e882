"""What readers say about articles."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from modernrpc import RpcNamespace, RpcRequestContext
from pydantic import BaseModel, Field

from mcp_bridge import mcp_tool
from testproject.newsroom.models import Comment
from testproject.newsroom.procedures.access import may
from testproject.newsroom.results import find_article

procedures = RpcNamespace()


class CommentData(BaseModel):
    """A comment under an article."""

    id: int
    article: str = Field(description="The slug of the article.")
    user: str
    text: str
    hidden: bool
    created_at: datetime

    @classmethod
    def of(cls, comment: Comment) -> CommentData:
        return cls(
            id=comment.pk,
            article=comment.article.slug,
            user=comment.user.get_username(),
            text=comment.text,
            hidden=comment.hidden,
            created_at=comment.created_at,
        )


@procedures.register_procedure(name="list", context_target="ctx")
@mcp_tool(
    title="List comments",
    read_only=True,
    permissions="newsroom.view_comment",
    scopes="news:read",
)
def list_comments(
    article: str,
    limit: Annotated[int, Field(ge=1, le=100)] = 50,
    *,
    ctx: RpcRequestContext,
) -> list[CommentData]:
    """
    List the comments under an article, oldest first. Only editors see hidden ones.

    :param article: The slug of the article.
    :param limit: How many comments at most.
    """
    user = ctx.request.user
    comments = find_article(article, user).comments.select_related("article", "user")
    if not user.has_perm("newsroom.change_comment"):
        comments = comments.filter(hidden=False)
    return [CommentData.of(comment) for comment in comments[: min(limit, 100)]]


@procedures.register_procedure(name="add", context_target="ctx", auth=may("newsroom.add_comment"))
@mcp_tool(
    title="Comment on an article",
    destructive=False,
    idempotent=False,
    permissions="newsroom.add_comment",
    scopes="news:write",
)
def add_comment(
    article: str,
    text: Annotated[str, Field(min_length=1, max_length=1000)],
    *,
    ctx: RpcRequestContext,
) -> CommentData:
    """
    Write a comment under an article, in your name.

    :param article: The slug of the article.
    :param text: The comment, as plain text.
    """
    user = ctx.request.user
    comment = Comment(article=find_article(article, user), user=user, text=text)
    comment.full_clean()
    comment.save()
    return CommentData.of(comment)


@procedures.register_procedure(name="hide", auth=may("newsroom.change_comment"))
def hide_comment(comment: int) -> bool:
    """
    Hide a comment from readers. Not a tool: moderation stays with people.

    :param comment: The id of the comment.
    """
    return Comment.objects.filter(pk=comment).update(hidden=True) == 1
