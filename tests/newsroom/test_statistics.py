from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import Sum

from mcp_bridge.protocol.revisions import REVISIONS
from testproject.newsroom.models import Article


@pytest.mark.parametrize("by", ["section", "author", "status"])
def test_table_counts_every_article(editor: Any, by: str) -> None:
    rows = editor.value("statistics_table", by=by)
    words = Article.objects.aggregate(words=Sum("word_count"))["words"]
    assert sum(row["articles"] for row in rows) == Article.objects.count()
    assert sum(row["words"] for row in rows) == words
    assert rows == sorted(rows, key=lambda row: row["group"])


@pytest.mark.parametrize("revision", REVISIONS)
def test_months_are_those_of_publication(desk: Callable[..., Any], revision: str) -> None:
    period = {"start": "2026-02-01", "end": "2026-03-31"}
    reader = desk("reader", revision=revision)
    rows = reader.value("statistics_table", by="month", period=period)
    assert [row["group"] for row in rows] == ["2026-02", "2026-03"]


def test_table_counts_the_articles_that_the_user_may_see(reader: Any) -> None:
    (row,) = reader.value("statistics_table", by="status")
    assert row["group"] == "published"


@pytest.mark.parametrize("period", [None, {"start": "1999-01-01", "end": "1999-01-31"}])
def test_chart_is_a_picture(reader: Any, period: dict[str, str] | None) -> None:
    pytest.importorskip("matplotlib")
    result = reader.call_tool("statistics_chart", {"measure": "words", "period": period})
    (block,) = result["content"]
    assert block["mimeType"] == "image/png"
    assert base64.b64decode(block["data"]).startswith(b"\x89PNG")


def test_without_matplotlib_the_table_is_recommended(
    reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "statistics_table" in reader.complaint("statistics_chart")
