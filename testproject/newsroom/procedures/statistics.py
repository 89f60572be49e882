"""What the newsroom has written, in figures and as a picture."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, Literal

from django.db.models import Count, F, QuerySet, Sum
from django.db.models.functions import TruncMonth
from modernrpc import RpcNamespace, RpcRequestContext
from pydantic import Field
from typing_extensions import TypedDict

from mcp_bridge import mcp_tool
from mcp_bridge.protocol.content import ImageContent
from testproject.newsroom.charts import bar_chart
from testproject.newsroom.models import Article

procedures = RpcNamespace()

Grouping = Literal["section", "author", "status", "month"]
Measure = Literal["articles", "words"]


class Period(TypedDict, total=False):
    """The days of publication that count; an end left out is open."""

    start: Annotated[date, Field(description="The first day.")]
    end: Annotated[date, Field(description="The last day.")]


class StatisticsRow(TypedDict):
    group: str
    articles: int
    words: int


GROUPS: dict[str, tuple[Any, Callable[[Any], str]]] = {
    "section": (F("section__name"), str),
    "author": (F("author__byline"), str),
    "status": (F("status"), str),
    "month": (TruncMonth("published_at"), lambda month: f"{month:%Y-%m}"),
}


@procedures.register_procedure(name="table", context_target="ctx")
@mcp_tool(
    title="Statistics as a table",
    read_only=True,
    permissions="newsroom.view_article",
    scopes="news:read",
)
def statistics_table(
    by: Grouping = "section", period: Period | None = None, *, ctx: RpcRequestContext
) -> list[StatisticsRow]:
    """
    Count the articles and words that you may see, grouped and sorted by group.

    :param by: What to group by; "month" is the month of publication.
    :param period: Only articles published in these days.
    :return: One row for each group.
    """
    return _rows(ctx.request.user, by, period)


@procedures.register_procedure(name="chart", context_target="ctx")
@mcp_tool(
    title="Statistics as a chart",
    read_only=True,
    permissions="newsroom.view_article",
    scopes="news:read",
    throttle="60/min",
)
def statistics_chart(
    by: Grouping = "section",
    measure: Measure = "articles",
    period: Period | None = None,
    *,
    ctx: RpcRequestContext,
) -> ImageContent:
    """
    Draw the statistics of statistics_table as a bar chart, to show them to a person.

    For figures to reckon with, statistics_table is the better tool.

    :param by: What to group by; "month" is the month of publication.
    :param measure: What the bars count.
    :param period: Only articles published in these days.
    :return: A PNG picture.
    """
    rows = _rows(ctx.request.user, by, period)
    figures = {row["group"]: row[measure] for row in rows}
    picture = bar_chart(figures, title=f"{measure.capitalize()} by {by}")
    return ImageContent(data=picture, mime_type="image/png")


def _rows(user: Any, by: str, period: Period | None) -> list[StatisticsRow]:
    expression, text = GROUPS[by]
    counted = (
        _within(Article.objects.visible_to(user), by, period or {})
        .values(grouped=expression)
        .annotate(articles=Count("pk"), words=Sum("word_count"))
        .order_by("grouped")
    )
    return [
        {"group": text(row["grouped"]), "articles": row["articles"], "words": row["words"]}
        for row in counted
    ]


def _within(articles: QuerySet[Article], by: str, period: Period) -> QuerySet[Article]:
    if by == "month":
        articles = articles.filter(published_at__isnull=False)
    if start := period.get("start"):
        articles = articles.filter(published_at__date__gte=start)
    if end := period.get("end"):
        articles = articles.filter(published_at__date__lte=end)
    return articles
