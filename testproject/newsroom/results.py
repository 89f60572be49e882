"""What the procedures for articles give back, and how it is made from models."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.core.paginator import EmptyPage, Page, Paginator
from django.db.models import Model, QuerySet

from mcp_bridge import ToolError
from testproject.newsroom.models import Article

M = TypeVar("M", bound=Model)
MAX_PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class ArticleSummary:
    """An article without its text."""

    slug: str
    title: str
    section: str
    author: str
    status: Article.Status
    word_count: int
    published_at: datetime | None

    @classmethod
    def of(cls, article: Article) -> ArticleSummary:
        return cls(
            slug=article.slug,
            title=article.title,
            section=article.section.slug,
            author=article.author.byline,
            status=Article.Status(article.status),
            word_count=article.word_count,
            published_at=article.published_at,
        )


@dataclass(frozen=True, slots=True)
class ArticlePage:
    """One page of articles, and how many there are in all."""

    articles: list[ArticleSummary]
    page: int
    pages: int
    total: int

    @classmethod
    def of(cls, page: Page[Article]) -> ArticlePage:
        return cls(
            articles=[ArticleSummary.of(article) for article in page],
            page=page.number,
            pages=page.paginator.num_pages,
            total=page.paginator.count,
        )


def find_article(slug: str, user: Any) -> Article:
    """The article with this slug, as far as the user may see it; a ToolError where not."""
    visible = Article.objects.visible_to(user).select_related("section", "author__user")
    article = visible.filter(slug=slug).first()
    if article is None:
        raise ToolError(
            f"There is no article with the slug {slug!r} that you may see. "
            "Find the slug with articles_search or articles_list."
        )
    return article


def page_of(rows: QuerySet[M], page: int, page_size: int) -> Page[M]:
    """A page of rows; a ToolError that names the last page where there is no such page."""
    paginator = Paginator(rows, min(page_size, MAX_PAGE_SIZE))
    try:
        return paginator.page(page)
    except EmptyPage:
        raise ToolError(
            f"There is no page {page}: the last page is {paginator.num_pages}."
        ) from None
