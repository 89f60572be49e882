"""Changes of one row at the same time."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge.testing import text_of
from testproject.newsroom.models import Article
from tests.conftest import Race
from tests.sources.admin.world import World, serve, value


@pytest.mark.alone
@pytest.mark.parametrize("race", ["IMMEDIATE"], indirect=True)
@pytest.mark.parametrize("options", [{}, {"task": True}], ids=["call", "task"])
def test_one_of_many_changes_with_one_version_is_saved(
    race: Race, settings: Any, options: dict[str, Any]
) -> None:
    # Nothing else is a transaction around a tool that may be a task.
    serve(settings, operations={"newsroom.*": {}, "newsroom.article.change": options})
    world = World.make()
    row = world.harbour.pk
    version = value(world.client("editor"), "newsroom_article_get", id=row)["version"]
    titles = iter([f"Title {number}" for number in range(8)])

    def change() -> tuple[str, str]:
        arguments = {"id": row, "version": version, "title": next(titles)}
        result = world.client("editor").call_tool("newsroom_article_change", arguments)
        return "" if result.get("isError") else arguments["title"], text_of(result)

    found = race(change, 8)
    [saved] = [title for title, _ in found if title]
    for text in (text for title, text in found if not title):
        assert f"Nothing was saved: {saved} has changed since this version, in title" in text
        assert "Last, editor did this at " in text
    shown = race(lambda: Article.objects.get(pk=row).title, 1)
    assert shown == [saved]
