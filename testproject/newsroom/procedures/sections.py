"""The sections of the paper."""

from __future__ import annotations

from django.db.models import Count, Q
from modernrpc import RpcNamespace
from typing_extensions import TypedDict

from mcp_bridge import mcp_tool
from testproject.newsroom.models import Article, Section

procedures = RpcNamespace()


class SectionData(TypedDict):
    slug: str
    name: str
    description: str
    published_articles: int


@procedures.register_procedure(name="list", auth=None)
@mcp_tool(title="List sections", read_only=True, public=True)
def list_sections() -> list[SectionData]:
    """
    List the sections of the paper with the number of articles published in each.

    Other tools take a section by the slug found here. Anybody may ask.
    """
    published = Count("articles", filter=Q(articles__status=Article.Status.PUBLISHED))
    return list(
        Section.objects.annotate(published_articles=published).values(
            "slug", "name", "description", "published_articles"
        )
    )
