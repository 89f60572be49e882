"""Writing articles and taking them through the workflow."""

from __future__ import annotations

from typing import Annotated

from modernrpc import RpcNamespace, RpcRequestContext
from pydantic import Field
from typing_extensions import TypedDict

from mcp_bridge import ToolError, mcp_tool
from testproject.newsroom import workflow
from testproject.newsroom.models import Section
from testproject.newsroom.results import ArticleSummary, find_article

procedures = RpcNamespace()

Title = Annotated[str, Field(min_length=5, max_length=150)]
Body = Annotated[str, Field(min_length=20, max_length=50_000)]
Summary = Annotated[str, Field(max_length=300)]
Tags = Annotated[list[Annotated[str, Field(min_length=1, max_length=30)]], Field(max_length=10)]


class Deleted(TypedDict):
    slug: str
    comments: int


@procedures.register_procedure(name="draft", context_target="ctx")
@mcp_tool(
    title="Write a draft",
    read_only=False,
    destructive=False,
    idempotent=False,
    permissions="newsroom.add_article",
    scopes="news:write",
)
def draft_article(
    title: Title,
    section: str,
    body: Body,
    summary: Summary = "",
    tags: Tags | None = None,
    *,
    ctx: RpcRequestContext,
) -> ArticleSummary:
    """
    Save a new article as a draft, signed by you; nothing is published.

    Submit it with articles_submit when it is ready for the editors.

    :param title: The headline.
    :param section: The slug of the section it belongs to; see sections_list.
    :param body: The text, as Markdown without the headline.
    :param summary: One or two sentences that stand above the text.
    :param tags: Up to ten keywords.
    :return: The draft, with the slug that all other tools take.
    """
    article = workflow.draft(
        ctx.request.user,
        title=title,
        section=_find_section(section),
        body=body,
        summary=summary,
        tags=tags or [],
    )
    return ArticleSummary.of(article)


@procedures.register_procedure(name="revise", context_target="ctx")
@mcp_tool(
    title="Revise an article",
    destructive=True,
    idempotent=True,
    permissions="newsroom.change_article",
    scopes="news:write",
)
def revise_article(
    slug: str,
    title: Title | None = None,
    section: str | None = None,
    body: Body | None = None,
    summary: Summary | None = None,
    tags: Tags | None = None,
    *,
    ctx: RpcRequestContext,
) -> ArticleSummary:
    """
    Replace parts of an article; what is left out stays as it is.

    Authors revise their own articles until they are published, editors revise any. The former
    text is not kept: read it with articles_get first.

    :param slug: The article's slug, which does not change with the title.
    :param title: The new headline.
    :param section: The slug of the section to move it to.
    :param body: The new text, whole, as Markdown without the headline.
    :param summary: The new summary.
    :param tags: The new keywords, in place of all former ones.
    """
    changes = {"title": title, "body": body, "summary": summary, "tags": tags}
    changes = {name: value for name, value in changes.items() if value is not None}
    if section is not None:
        changes["section"] = _find_section(section)
    if not changes:
        raise ToolError(
            "Nothing to revise: give at least one of title, section, body, summary, tags."
        )
    article = workflow.revise(ctx.request.user, find_article(slug, ctx.request.user), **changes)
    return ArticleSummary.of(article)


@procedures.register_procedure(name="submit", context_target="ctx")
@mcp_tool(
    title="Submit for review",
    destructive=False,
    idempotent=True,
    permissions="newsroom.submit_article",
    scopes="news:write",
)
def submit_article(slug: str, *, ctx: RpcRequestContext) -> ArticleSummary:
    """
    Hand a draft to the editors for review. Submitting twice changes nothing.

    :param slug: The article's slug.
    """
    user = ctx.request.user
    return ArticleSummary.of(workflow.submit(user, find_article(slug, user)))


@procedures.register_procedure(name="publish", context_target="ctx")
@mcp_tool(
    title="Publish an article",
    destructive=False,
    idempotent=True,
    open_world=True,
    permissions="newsroom.publish_article",
    scopes="news:write",
)
def publish_article(slug: str, *, ctx: RpcRequestContext) -> ArticleSummary:
    """
    Publish an article that is in review: from now on everybody can read it.

    A draft has to be submitted first. Publishing twice changes nothing.

    :param slug: The article's slug.
    """
    user = ctx.request.user
    return ArticleSummary.of(workflow.publish(user, find_article(slug, user)))


@procedures.register_procedure(name="unpublish", context_target="ctx")
@mcp_tool(
    title="Unpublish an article",
    destructive=True,
    permissions="newsroom.publish_article",
    scopes="news:write",
)
def unpublish_article(slug: str, *, ctx: RpcRequestContext) -> ArticleSummary:
    """
    Take a published article off the site and back into review.

    :param slug: The article's slug.
    """
    user = ctx.request.user
    return ArticleSummary.of(workflow.unpublish(user, find_article(slug, user)))


@procedures.register_procedure(name="delete", context_target="ctx")
@mcp_tool(
    title="Delete an article",
    destructive=True,
    confirm=True,
    permissions="newsroom.delete_article",
    scopes="news:write",
)
def delete_article(slug: str, *, ctx: RpcRequestContext) -> Deleted:
    """
    Delete an article and its comments for good; there is no way back.

    A published article has to be unpublished first. Ask the user before you use this.

    :param slug: The article's slug.
    :return: The slug that is free again, and how many comments went with the article.
    """
    article = find_article(slug, ctx.request.user)
    comments = article.comments.count()
    workflow.delete(ctx.request.user, article)
    return {"slug": slug, "comments": comments}


def _find_section(slug: str) -> Section:
    section = Section.objects.filter(slug=slug).first()
    if section is None:
        known = ", ".join(Section.objects.values_list("slug", flat=True))
        raise ToolError(f"There is no section {slug!r}. The sections are: {known}.")
    return section
