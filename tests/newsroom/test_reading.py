from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_bridge.protocol.revisions import REVISIONS
from testproject.newsroom.models import Article, Comment

Status = Article.Status


@pytest.fixture
def published(newsroom: None) -> Article:
    return Article.objects.published().select_related("section", "author").first()


@pytest.fixture
def unpublished(newsroom: None) -> Article:
    return Article.objects.filter(status=Status.REVIEW).exclude(author__user=None).first()


@pytest.mark.parametrize("revision", REVISIONS)
def test_article_reads_as_markdown(
    desk: Callable[..., Any], published: Article, revision: str
) -> None:
    text = desk("reader", revision=revision).value("articles_get", slug=published.slug)
    assert text.startswith(f"# {published.title}\n\n*By {published.author} · {published.section}")
    assert published.body in text


def test_comments_are_included_on_request(reader: Any, published: Article) -> None:
    published.comments.all().delete()
    plain = reader.value("articles_get", slug=published.slug)
    assert "## Comments" not in plain
    empty = reader.value("articles_get", slug=published.slug, with_comments=True)
    assert empty.endswith("No comments yet.")
    reader.value("comments_add", article=published.slug, text="Well said.")
    full = reader.value("articles_get", slug=published.slug, with_comments=True)
    assert full.endswith("- **reader**: Well said.")


def test_error_for_unknown_slug_says_how_to_find_one(reader: Any) -> None:
    assert "articles_search" in reader.complaint("articles_get", slug="no-such-article")


def test_unpublished_article_is_unknown_to_readers(
    reader: Any, editor: Any, unpublished: Article
) -> None:
    hidden = reader.complaint("articles_get", slug=unpublished.slug)
    unknown = reader.complaint("articles_get", slug="no-such-article")
    assert hidden == unknown.replace("no-such-article", unpublished.slug)
    assert editor.value("articles_get", slug=unpublished.slug)


@pytest.mark.parametrize("revision", REVISIONS)
def test_readers_list_published_articles(desk: Callable[..., Any], revision: str) -> None:
    page = desk("reader", revision=revision).value("articles_list", page_size=100)
    assert {article["status"] for article in page["articles"]} == {"published"}
    assert page["total"] == Article.objects.published().count()


def test_authors_list_their_own_drafts_as_well(author: Any) -> None:
    drafts = author.value("articles_list", status="draft", page_size=100)["articles"]
    assert {article["author"] for article in drafts} == {"Alma Writer"}


def test_pages_hold_every_article_once(editor: Any) -> None:
    slugs: list[str] = []
    page = {"page": 0, "pages": 1}
    while page["page"] < page["pages"]:
        page = editor.value("articles_list", page=page["page"] + 1, page_size=100)
        slugs += [article["slug"] for article in page["articles"]]
    assert len(slugs) == len(set(slugs)) == page["total"] == Article.objects.count()


def test_page_beyond_the_last_is_an_error_naming_it(reader: Any) -> None:
    assert "the last page is" in reader.complaint("articles_list", page=10**30)


def test_filters_narrow_the_list(editor: Any) -> None:
    filters = {"section": "sport", "status": "published", "author": "brook"}
    days = {"published_from": "2026-01-01", "published_to": "2026-06-30"}
    page = editor.value("articles_list", **filters, **days, page_size=100)
    expected = Article.objects.filter(
        section__slug="sport",
        status="published",
        author__byline="Ada Brook",
        published_at__date__range=("2026-01-01", "2026-06-30"),
    )
    assert 0 < page["total"] == expected.count()


@pytest.mark.parametrize(
    ("order", "key", "reverse"),
    [("title", "title", False), ("longest", "word_count", True)],
)
def test_list_is_ordered(reader: Any, order: str, key: str, reverse: bool) -> None:
    articles = reader.value("articles_list", order=order)["articles"]
    keys = [article[key] for article in articles]
    assert keys == sorted(keys, reverse=reverse)


@pytest.mark.parametrize("revision", REVISIONS)
def test_search_finds_words_in_any_field(desk: Callable[..., Any], revision: str) -> None:
    reader = desk("reader", revision=revision)
    found = reader.value("articles_search", query="HARBOUR bridge", page_size=50)
    assert found["total"] > 0
    for hit in found["hits"]:
        article = Article.objects.get(slug=hit["slug"])
        text = f"{article.title} {article.summary} {article.body}".lower()
        assert "harbour" in text
        assert "bridge" in text
        assert "harbour" in hit["excerpt"].lower() or "bridge" in hit["excerpt"].lower()


def test_search_takes_filters(editor: Any) -> None:
    filters = {"section": "sport", "status": "published", "year": 2026}
    hits = editor.value("articles_search", query="the", filters=filters)["hits"]
    assert {(hit["section"], hit["status"]) for hit in hits} == {("sport", "published")}


def test_search_without_a_word_is_an_error(reader: Any) -> None:
    assert "no word" in reader.complaint("articles_search", query="   ")


def test_anonymous_callers_read_the_headlines(desk: Callable[..., Any]) -> None:
    headlines = desk().value("articles_headlines", limit=5, section="culture")
    days = [headline["published_at"] for headline in headlines]
    assert len(days) == 5
    assert days == sorted(days, reverse=True)
    assert {headline["section"] for headline in headlines} == {"culture"}


def test_anonymous_callers_list_the_sections(desk: Callable[..., Any]) -> None:
    sections = desk().value("sections_list")
    counted = sum(section["published_articles"] for section in sections)
    assert counted == Article.objects.published().count()


def test_hidden_comments_are_for_editors(reader: Any, editor: Any) -> None:
    comment = Comment.objects.filter(hidden=True).select_related("article").first()
    seen = [
        [each["id"] for each in who.value("comments_list", article=comment.article.slug)]
        for who in (reader, editor)
    ]
    assert comment.pk not in seen[0]
    assert comment.pk in seen[1]


def test_brief_counts_every_article(editor: Any) -> None:
    brief = editor.value("desk_brief")
    assert sum(brief["articles"].values()) == Article.objects.count()
    assert Article.objects.get(slug=brief["waiting_for_review"][0]).status == Status.REVIEW
    assert Article.objects.get(slug=brief["latest"]).status == Status.PUBLISHED
