"""Articles as resources, and what an editor asks of a model again and again as prompts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from pydantic import Field

from mcp_bridge import Context, mcp_prompt, mcp_resource, mcp_toolset
from mcp_bridge.protocol.content import EmbeddedResource, PromptMessage
from testproject.newsroom.markdown import as_markdown
from testproject.newsroom.models import Article, Section

ARTICLE = "articles://{slug}"
Slug = Annotated[str, Field(description="The article, by its slug.")]
Tone = Annotated[Literal["kind", "strict"], Field(description="How to say it.")]


def slugs(value: str, context: Context) -> QuerySet[Article, str]:
    """The slugs of the articles that the caller may read."""
    found = Article.objects.visible_to(context.user).filter(slug__startswith=value)
    return found.order_by("slug").values_list("slug", flat=True)


@mcp_toolset(prefix="", permissions="newsroom.view_article", scopes="news:read")
class Reading:
    """Resources and prompts about the articles that the caller may read."""

    def __init__(self, context: Context) -> None:
        self.articles = Article.objects.visible_to(context.user)

    @mcp_resource("sections://all", title="Sections")
    def sections(self) -> list[dict[str, str]]:
        """The sections of the paper, with their slugs."""
        return list(Section.objects.values("slug", "name", "description"))

    @mcp_resource(ARTICLE, title="Article", mime_type="text/markdown")
    def article(self, slug: Slug) -> str:
        """One article that you may read, as Markdown."""
        return as_markdown(self._found(slug))

    @mcp_prompt(title="Review an article")
    def review(self, slug: Slug, tone: Tone = "kind") -> list[PromptMessage]:
        """Have an article reviewed before it is published."""
        found = self._found(slug)
        text = f"Review this article as an editor would. Be {tone}: name what to change, and why."
        address = ARTICLE.replace("{slug}", found.slug)
        return [
            PromptMessage(text),
            PromptMessage(EmbeddedResource(address, as_markdown(found), "text/markdown")),
        ]

    @mcp_prompt(title="Find a headline", template="newsroom/prompts/headline.md")
    def headline(
        self,
        slug: Slug,
        count: Annotated[int, Field(ge=1, le=10, description="How many headlines.")] = 3,
        words: Annotated[int, Field(ge=3, le=15, description="The most words of each.")] = 8,
    ) -> dict[str, Any]:
        """Have headlines proposed for an article."""
        return {"article": as_markdown(self._found(slug)), "count": count, "words": words}

    article.complete("slug")(slugs)
    review.complete("slug")(slugs)
    headline.complete("slug")(slugs)

    def _found(self, slug: str) -> Article:
        return get_object_or_404(self.articles.select_related("author", "section"), slug=slug)
