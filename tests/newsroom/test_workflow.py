from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_bridge.protocol.revisions import REVISIONS
from mcp_bridge.testing.checked import CheckedClient
from testproject.newsroom.models import Article, Author

BODY = "The light at the harbour mouth will turn without its keeper from now on."


def draft(desk: Any, **fields: Any) -> str:
    text = {"title": "Lighthouse keeper retires", "section": "local", "body": BODY}
    return desk.value("articles_draft", **{**text, **fields})["slug"]


def status(slug: str) -> str:
    return Article.objects.get(slug=slug).status


@pytest.mark.parametrize("revision", REVISIONS)
def test_draft_is_submitted_published_unpublished_and_deleted(
    desk: Callable[..., Any], revision: str
) -> None:
    author, editor = desk("author", revision=revision), desk("editor", revision=revision)
    slug = draft(author, summary="An era ends.", tags=["sea", "town"])
    statuses = [status(slug)]
    for who, step in [(author, "submit"), (editor, "publish"), (editor, "unpublish")]:
        who.value(f"articles_{step}", slug=slug)
        statuses.append(status(slug))
    assert statuses == ["draft", "review", "published", "review"]
    editor.value("comments_add", article=slug, text="A pity.")
    assert editor.value("articles_delete", slug=slug) == {"slug": slug, "comments": 1}
    assert not Article.objects.filter(slug=slug).exists()


def test_draft_is_signed_by_its_author(author: Any) -> None:
    assert Article.objects.get(slug=draft(author)).author.byline == "Alma Writer"


def test_draft_needs_an_author_profile(author: Any) -> None:
    Author.objects.filter(user__username="author").update(
        user=Author.objects.model.user.field.related_model.objects.get(username="reader")
    )
    text = {"title": "Without a name", "section": "local", "body": BODY}
    assert "no author profile" in author.complaint("articles_draft", **text)


def test_equal_titles_get_different_slugs(author: Any) -> None:
    slugs = [draft(author) for _ in range(3)]
    assert slugs == [f"lighthouse-keeper-retires{end}" for end in ("", "-2", "-3")]


def test_title_without_letters_gets_a_slug(author: Any) -> None:
    assert draft(author, title="?????") == "article"


def test_error_for_unknown_section_names_the_known_ones(author: Any) -> None:
    text = {"title": "Somewhere else", "section": "space", "body": BODY}
    assert "culture, local" in author.complaint("articles_draft", **text)


def test_all_errors_in_the_arguments_are_reported_together(author: Any) -> None:
    complaint = author.complaint("articles_draft", title="Oh", section=7, tags=[""], colour="red")
    for path in ("/title", "/section", "/body", "/tags/0", "/colour"):
        assert f"{path}: " in complaint


def test_early_publication_names_the_missing_parts(editor: Any) -> None:
    assert "submit it" in editor.complaint("articles_publish", slug=draft(editor))


def test_submitting_and_publishing_twice_change_nothing(editor: Any) -> None:
    slug = draft(editor)
    for step in ("submit", "publish"):
        once = editor.value(f"articles_{step}", slug=slug)
        assert editor.value(f"articles_{step}", slug=slug) == once


def test_published_article_is_not_submitted_or_deleted(editor: Any) -> None:
    slug = Article.objects.published().first().slug
    assert "already published" in editor.complaint("articles_submit", slug=slug)
    assert "unpublish it first" in editor.complaint("articles_delete", slug=slug)
    assert status(slug) == "published"


def test_unpublished_article_cannot_be_unpublished(editor: Any) -> None:
    assert "not published" in editor.complaint("articles_unpublish", slug=draft(editor))


def test_revision_replaces_only_the_given_fields(author: Any) -> None:
    slug = draft(author, summary="Before.")
    author.value("articles_revise", slug=slug, summary="After.", section="culture", tags=["sea"])
    article = Article.objects.get(slug=slug)
    assert (article.summary, article.section.slug, article.tags) == ("After.", "culture", ["sea"])
    assert article.body == BODY


def test_empty_revision_is_an_error(author: Any) -> None:
    assert "Nothing to revise" in author.complaint("articles_revise", slug=draft(author))


def test_authors_cannot_change_articles_of_others(author: Any) -> None:
    slug = Article.objects.published().exclude(author__byline="Alma Writer").first().slug
    for step in ({"name": "articles_revise", "summary": "Mine."}, {"name": "articles_submit"}):
        assert "somebody else" in author.complaint(slug=slug, **step)


def test_authors_cannot_revise_published_articles(author: Any, editor: Any) -> None:
    slug = draft(author)
    author.value("articles_submit", slug=slug)
    editor.value("articles_publish", slug=slug)
    complaint = author.complaint("articles_revise", slug=slug, summary="Late.")
    assert complaint == "Only an editor can revise what is published."
    assert editor.value("articles_revise", slug=slug, summary="Late.")["status"] == "published"


def test_recount_corrects_the_words(admin: Any) -> None:
    Article.objects.filter(pk=Article.objects.first().pk).update(word_count=1)
    counted = admin.value("archive_recount", pause=0)
    assert counted["corrected"] == 1
    assert counted["articles"] == Article.objects.count()


def test_recount_pauses_between_articles(admin: Any) -> None:
    assert admin.value("archive_recount", pause=0.001)["seconds"] > 0.2


def test_cause_of_a_failure_is_logged_but_not_sent(
    author: Any, caplog: pytest.LogCaptureFixture
) -> None:
    complaint = author.complaint("wire_import", story="9f1c0d7e-5a44-4c1b-9d0e-3f6f2a1b7c55")
    assert "wire-gateway" not in complaint
    assert "newsdesk" not in complaint
    assert "wire-gateway" in caplog.text


def test_copies_are_imported_with_progress(author: Any) -> None:
    before = Article.objects.count()
    reports: list[Any] = []
    result = CheckedClient.call_tool(author, "wire_import", {"copies": 3}, progress=reports.append)
    assert result["structuredContent"]["drafts"] == 3
    assert [each["progress"] for each in reports] == [1, 2, 3]
    assert Article.objects.count() == before + 3
    assert "how many copies" in author.complaint("wire_import")
