"""Articles as resources, and what an editor asks of a model again and again as prompts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from pydantic import Field

from mcp_bridge import Context, mcp_prompt, mcp_resource
from mcp_bridge.protocol.content import EmbeddedResource, PromptMessage
from testproject.newsroom.markdown import as_markdown
from testproject.newsroom.models import Article, Section

ARTICLE = "articles://{slug}"
Slug = Annotated[str, Field(description="The article, by its slug.")]
RULES = {"permissions": "newsroom.view_article", "scopes": "news:read"}


@mcp_resource("sections://all", title="Sections", **RULES)
def sections() -> list[dict[str, str]]:
    """The sections of the paper, with their slugs."""
    return list(Section.objects.values("slug", "name", "description"))


@mcp_resource(ARTICLE, title="Article", mime_type="text/markdown", **RULES)
def article(slug: str, context: Context) -> str:
    """One article that you may read, as Markdown."""
    return as_markdown(_visible(slug, context))


@mcp_prompt(title="Review an article", **RULES)
def review(
    slug: Slug, tone: Literal["kind", "strict"] = "kind", *, context: Context
) -> list[PromptMessage]:
    """Have an article reviewed before it is published."""
    found = _visible(slug, context)
    text = f"Review this article as an editor would. Be {tone}: name what to change, and why."
    address = ARTICLE.replace("{slug}", found.slug)
    return [
        PromptMessage(text),
        PromptMessage(EmbeddedResource(address, as_markdown(found), "text/markdown")),
    ]


@mcp_prompt(title="Find a headline", template="newsroom/prompts/headline.md", **RULES)
def headline(
    slug: Slug,
    count: Annotated[int, Field(ge=1, le=10, description="How many headlines.")] = 3,
    words: Annotated[int, Field(ge=3, le=15, description="The most words of each.")] = 8,
    *,
    context: Context,
) -> dict[str, Any]:
    """Have headlines proposed for an article."""
    return {"article": as_markdown(_visible(slug, context)), "count": count, "words": words}


@article.complete("slug")
@review.complete("slug")
@headline.complete("slug")
def slugs(value: str, context: Context) -> QuerySet[Article, str]:
    """The slugs of the articles that the caller may read."""
    found = Article.objects.visible_to(context.user).filter(slug__startswith=value)
    return found.order_by("slug").values_list("slug", flat=True)


def _visible(slug: str, context: Context) -> Article:
    articles = Article.objects.visible_to(context.user).select_related("author", "section")
    return get_object_or_404(articles, slug=slug)
