"""Finding and reading articles."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from functools import reduce
from operator import and_
from typing import Annotated, Literal

from django.db.models import Q
from modernrpc import RpcNamespace, RpcRequestContext
from pydantic import Field
from typing_extensions import TypedDict

from mcp_bridge import ToolError, mcp_tool
from testproject.newsroom.markdown import as_markdown
from testproject.newsroom.models import Article
from testproject.newsroom.results import ArticlePage, find_article, page_of

procedures = RpcNamespace()

PageNumber = Annotated[int, Field(ge=1)]
PageSize = Annotated[int, Field(ge=1, le=100)]
ORDERS = {
    "newest": "-created_at",
    "oldest": "created_at",
    "title": "title",
    "longest": "-word_count",
}


@procedures.register_procedure(name="list", context_target="ctx")
@mcp_tool(
    title="List articles",
    read_only=True,
    permissions="newsroom.view_article",
    scopes="news:read",
)
def list_articles(
    section: str | None = None,
    status: Article.Status | None = None,
    author: str | None = None,
    published_from: date | None = None,
    published_to: date | None = None,
    order: Literal["newest", "oldest", "title", "longest"] = "newest",
    page: PageNumber = 1,
    page_size: PageSize = 20,
    *,
    ctx: RpcRequestContext,
) -> ArticlePage:
    """
    List the articles that you may see, page by page, without their text.

    Use it to browse or to answer "what did we publish in May?"; use articles_search to look for
    words. Readers see what is published, authors also their own drafts, editors everything.

    :param section: Only this section, by its slug, such as "local"; see sections_list.
    :param status: Only articles at this step of the workflow.
    :param author: Only articles whose byline contains this.
    :param published_from: Only articles published on this day or later.
    :param published_to: Only articles published on this day or earlier.
    :param order: What comes first.
    :param page: Which page, from 1.
    :param page_size: How many articles a page has.
    """
    filters = {
        "section__slug": section,
        "status": status,
        "author__byline__icontains": author,
        "published_at__date__gte": published_from,
        "published_at__date__lte": published_to,
    }
    articles = Article.objects.visible_to(ctx.request.user).select_related("section", "author")
    articles = articles.filter(**{name: value for name, value in filters.items() if value})
    shown = page_of(articles.order_by(ORDERS[order], "slug"), page, page_size)
    return ArticlePage.of(shown)


class SearchFilters(TypedDict, total=False):
    """What a search may be narrowed to."""

    section: Annotated[str, Field(description="The slug of a section.")]
    status: Article.Status
    year: Annotated[int, Field(ge=2000, le=2100, description="The year of publication.")]


class SearchHit(TypedDict):
    slug: str
    title: str
    section: str
    status: Article.Status
    excerpt: str


class SearchPage(TypedDict):
    hits: list[SearchHit]
    page: int
    pages: int
    total: int


@procedures.register_procedure(name="search", context_target="ctx")
@mcp_tool(
    title="Search articles",
    read_only=True,
    permissions="newsroom.view_article",
    scopes="news:read",
)
def search_articles(
    query: Annotated[str, Field(min_length=2, max_length=100)],
    filters: SearchFilters | None = None,
    page: PageNumber = 1,
    page_size: PageSize = 10,
    *,
    ctx: RpcRequestContext,
) -> SearchPage:
    """
    Search the articles that you may see for words in the title, the summary and the text.

    All words must occur; case does not matter. Each hit comes with its slug, which articles_get
    takes, and with the passage around the first word found.

    :param query: One or more words, such as "harbour bridge".
    :param filters: What to narrow the search to.
    :param page: Which page of hits, from 1.
    :param page_size: How many hits a page has.
    """
    words = query.split()
    if not words:
        raise ToolError("The query holds no word to search for.")
    articles = Article.objects.visible_to(ctx.request.user).select_related("section")
    articles = articles.filter(reduce(and_, map(_contains, words), Q()))
    paths = {"section": "section__slug", "status": "status", "year": "published_at__year"}
    articles = articles.filter(**{paths[name]: value for name, value in (filters or {}).items()})
    shown = page_of(articles.order_by("-created_at", "slug"), page, page_size)
    return {
        "hits": [_hit(article, words) for article in shown],
        "page": shown.number,
        "pages": shown.paginator.num_pages,
        "total": shown.paginator.count,
    }


def _contains(word: str) -> Q:
    return Q(title__icontains=word) | Q(summary__icontains=word) | Q(body__icontains=word)


def _hit(article: Article, words: list[str]) -> SearchHit:
    found = re.search("|".join(map(re.escape, words)), article.body, re.IGNORECASE)
    start = max(found.start() - 60, 0) if found else 0
    excerpt = " ".join(article.body[start : start + 160].split())
    return {
        "slug": article.slug,
        "title": article.title,
        "section": article.section.slug,
        "status": Article.Status(article.status),
        "excerpt": f"…{excerpt}…" if start else f"{excerpt}…",
    }


@procedures.register_procedure(name="get", context_target="ctx")
@mcp_tool(
    title="Read an article",
    read_only=True,
    permissions="newsroom.view_article",
    scopes="news:read",
)
def get_article(slug: str, with_comments: bool = False, *, ctx: RpcRequestContext) -> str:
    """
    Read one article as Markdown: title, byline, section, status, summary and the whole text.

    :param slug: The article's slug, from articles_list or articles_search.
    :param with_comments: Whether the comments of readers follow the text.
    """
    return as_markdown(find_article(slug, ctx.request.user), with_comments=with_comments)


@dataclass(frozen=True, slots=True)
class Headline:
    title: str
    section: str
    published_at: datetime


@procedures.register_procedure(name="headlines", auth=None)
@mcp_tool(title="Latest headlines", read_only=True, public=True)
def headlines(
    section: str | None = None, limit: Annotated[int, Field(ge=1, le=50)] = 10
) -> list[Headline]:
    """
    List the latest published headlines, newest first; anybody may ask.

    :param section: Only this section, by its slug; see sections_list.
    :param limit: How many headlines at most.
    """
    articles = (
        Article.objects.published().select_related("section").order_by("-published_at", "slug")
    )
    if section:
        articles = articles.filter(section__slug=section)
    return [
        Headline(article.title, article.section.slug, article.published_at)
        for article in articles[: min(limit, 50)]
    ]
