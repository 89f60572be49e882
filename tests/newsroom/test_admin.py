from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from testproject.newsroom.models import Article, Author, Comment, Media, Section

Login = Callable[[str], Client]
MODELS = [Article, Author, Comment, Media, Section]


@pytest.fixture
def login(user: Callable[[str], Any]) -> Login:
    def log_in(username: str) -> Client:
        client = Client()
        client.force_login(user(username))
        return client

    return log_in


def act(client: Client, model: Any, action: str, rows: list[Any]) -> str:
    url = reverse(f"admin:newsroom_{model._meta.model_name}_changelist")
    chosen = {"action": action, "_selected_action": [row.pk for row in rows]}
    return client.post(url, chosen, follow=True).content.decode()


@pytest.mark.parametrize("model", MODELS)
def test_admin_lists_searches_and_shows(login: Login, model: Any) -> None:
    name = model._meta.model_name
    client = login("admin")
    listed = client.get(reverse(f"admin:newsroom_{name}_changelist"), {"q": "a"})
    assert listed.status_code == 200
    shown = client.get(reverse(f"admin:newsroom_{name}_change", args=[model.objects.first().pk]))
    assert shown.status_code == 200


def test_picture_is_shown(login: Login) -> None:
    page = login("admin").get(reverse("admin:newsroom_media_changelist")).content.decode()
    assert '<img src="data:image/png;base64,' in page


def test_editor_takes_articles_through_the_workflow(login: Login) -> None:
    client, article = login("editor"), Article.objects.filter(status="draft").first()
    statuses = []
    for action in ("submit", "publish", "unpublish"):
        act(client, Article, action, [article])
        article.refresh_from_db()
        statuses.append(article.status)
    assert statuses == ["review", "published", "review"]


def test_admin_says_why_an_article_is_not_ready(login: Login) -> None:
    drafts = list(Article.objects.filter(status="draft")[:2])
    page = act(login("editor"), Article, "publish", drafts)
    assert page.count("submit it for review first") == 2


def test_author_on_the_staff_submits_only_own_articles(
    login: Login, user: Callable[[str], Any]
) -> None:
    author = user("author")
    author.is_staff = True
    author.save()
    draft = Article.objects.filter(status="draft").exclude(author__user=author).first()
    assert "by somebody else" in act(login("author"), Article, "submit", [draft])
    draft.refresh_from_db()
    assert draft.status == "draft"


def test_comments_are_hidden_together(login: Login) -> None:
    comments = list(Comment.objects.filter(hidden=False)[:3])
    assert "3 comments hidden" in act(login("editor"), Comment, "hide", comments)


@pytest.mark.parametrize("model", MODELS)
def test_models_have_readable_names(newsroom: None, model: Any) -> None:
    assert "object (" not in str(model.objects.first())
