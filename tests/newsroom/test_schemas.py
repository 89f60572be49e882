"""The newsroom's advertised schemas and its results hold for every role."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from typing import Any

import pytest

from testproject.newsroom.models import Article, Comment, Media
from testproject.newsroom.pictures import landscape
from tests.newsroom.test_access import EVERYTHING
from tests.server.test_every_schema import flaws, misfits

PERIOD = {"start": "2026-01-01", "end": "2026-12-31"}
DRAFT = {"title": "The lighthouse keeper", "section": "local", "body": "She retires. " * 10}
PICTURE = base64.b64encode(landscape(random.Random(1))).decode()


def calls() -> dict[str, dict[str, Any]]:
    """
    Return valid arguments for all that promise a structured result, in an order that succeeds.
    """
    published = Article.objects.published().first().slug
    written = {"slug": "the-lighthouse-keeper"}
    return {
        "desk_whoami": {},
        "desk_brief": {},
        "sections_list": {},
        "articles_headlines": {"limit": 50},
        "articles_list": {"page_size": 100, "published_from": "2026-01-01"},
        "articles_search": {"query": "the", "filters": {"status": "published"}},
        "articles_get": {"slug": published, "with_comments": True},
        "articles_draft": {**DRAFT, "tags": ["sea"], "summary": "An era ends."},
        "articles_revise": {**written, "summary": "It ends."},
        "articles_submit": written,
        "articles_publish": written,
        "articles_unpublish": written,
        "articles_delete": written,
        "comments_add": {"article": published, "text": "Well said."},
        "comments_list": {"article": published},
        "media_list": {},
        "media_show": {"media": Media.objects.first().pk},
        "media_upload": {"title": "Dusk", "alt_text": "A low sun", "data": PICTURE},
        "style_check": {"text": "It is very late! In order to go, go."},
        "style_measure": {"text": "It is late. Go."},
        "moderation_comments": {"limit": 2},
        "moderation_hide": {"number": Comment.objects.first().pk},
        "statistics_table": {"by": "month", "period": PERIOD},
        "archive_recount": {"pause": 0},
        "newsroom_article_find": {"search": "harbour", "order": ["-title"]},
        "newsroom_article_get": {"id": Article.objects.latest("pk").pk},
        "newsroom_article_change": {"id": Article.objects.latest("pk").pk, "summary": "It ends."},
        "newsroom_article_history": {"id": Article.objects.latest("pk").pk},
        "wire_import": {"story": "9f1c0d7e-5a44-4c1b-9d0e-3f6f2a1b7c55"},
    }


@pytest.mark.parametrize("role", [None, "reader", "author", "editor", "admin"])
def test_every_schema_is_valid_and_passes_the_linter(
    desk: Callable[..., Any], role: str | None
) -> None:
    definitions = desk(role).list_tools()
    assert definitions
    assert [flaw for each in definitions for flaw in flaws(each)] == []


def test_every_result_matches_its_schema(admin: Any) -> None:
    definitions = {each["name"]: each for each in admin.list_tools()}
    assert definitions.keys() == EVERYTHING
    structured = {name for name, each in definitions.items() if "outputSchema" in each}
    assert structured <= calls().keys()
    for name, arguments in calls().items():
        if name == "newsroom_article_change":
            read = admin.call_tool("newsroom_article_get", {"id": arguments["id"]})
            arguments["version"] = read["structuredContent"]["version"]
        result = admin.call_tool(name, arguments)
        # The agency is out of order.
        assert result["isError"] is (name == "wire_import"), result["content"]
        if not result["isError"]:
            assert misfits(definitions[name], result) == []
