"""Articles as resources, prompts about them, and the completion of their slugs."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge.testing import MCPError
from testproject.newsroom.models import Article
from tests.newsroom.conftest import Desk

ARTICLE = {"type": "ref/resource", "uri": "articles://{slug}"}
REVIEW = {"type": "ref/prompt", "name": "review"}


def completed(desk: Desk, ref: dict[str, str], value: str = "") -> set[str]:
    argument = {"name": "slug", "value": value}
    found: dict[str, Any] = desk.post("completion/complete", ref=ref, argument=argument)
    return {*found["completion"]["values"]}


@pytest.mark.parametrize("role", ["reader", "author", "editor"])
def test_completed_slugs_are_exactly_the_readable_ones(desk: Any, user: Any, role: str) -> None:
    client, readable = desk(role), set()
    for slug in Article.objects.values_list("slug", flat=True)[:40]:
        # As the site itself decides, without MCP.
        if Article.objects.visible_to(user(role)).filter(slug=slug).exists():
            readable.add(slug)
            (contents,) = client.read_resource(f"articles://{slug}")
            assert contents["text"].startswith("# ")
        else:
            with pytest.raises(MCPError, match="Resource not found"):
                client.read_resource(f"articles://{slug}")
            with pytest.raises(MCPError, match="-32602"):
                client.get_prompt("review", slug=slug)
        assert (slug in completed(client, ARTICLE, slug)) is (slug in readable)
        assert completed(client, REVIEW, slug) == completed(client, ARTICLE, slug)
    assert readable
    if role == "editor":
        assert len(readable) == 40


def test_prompts_hold_the_article(desk: Any) -> None:
    client = desk("editor")
    slug = Article.objects.values_list("slug", flat=True)[0]
    question, attached = client.get_prompt("review", slug=slug, tone="strict")
    assert "Be strict" in question["content"]["text"]
    assert attached["content"]["resource"]["uri"] == f"articles://{slug}"
    (message,) = client.get_prompt("headline", slug=slug, count="1", words="5")
    assert message["content"]["text"].startswith("Propose 1 headline of at most 5 words")


def test_sections_are_a_resource(desk: Any) -> None:
    (contents,) = desk("reader").read_resource("sections://all")
    assert '"slug":"local"' in contents["text"]
