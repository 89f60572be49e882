from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import Group
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

from testproject.newsroom.models import Article, Author, Comment, Media, Section
from testproject.newsroom.roles import _permissions

pytestmark = pytest.mark.django_db


def everything() -> list[Any]:
    articles = Article.objects.values_list("slug", "body", "status", "author__byline", "created_at")
    comments = Comment.objects.values_list("article__slug", "text", "hidden", "created_at")
    media = Media.objects.values_list("title", "data")
    return [*articles.order_by("slug"), *comments.order_by("pk"), *media.order_by("pk")]


def test_200_articles_cover_every_section_and_status(newsroom: None) -> None:
    assert Article.objects.count() >= 200
    for section in Section.objects.all():
        statuses = set(section.articles.values_list("status", flat=True))
        assert statuses == set(Article.Status.values)
    assert Author.objects.filter(articles__isnull=False).distinct().count() >= 8


def test_seeding_twice_changes_nothing(newsroom: None) -> None:
    before = everything()
    call_command("seed_newsroom", verbosity=0)
    assert everything() == before


def test_every_newsroom_is_seeded_alike(newsroom: None) -> None:
    before = everything()
    Article.objects.all().delete()
    Media.objects.all().delete()
    call_command("seed_newsroom", verbosity=0)
    assert everything() == before


def test_deleted_article_is_restored_with_its_related_rows(newsroom: None) -> None:
    before = everything()
    picture = Media.objects.select_related("article").last()
    picture.article.delete()
    picture.delete()
    call_command("seed_newsroom", verbosity=0)
    assert len(everything()) == len(before)


def test_edited_article_is_not_changed(newsroom: None) -> None:
    Article.objects.update(body="Edited.")
    call_command("seed_newsroom", verbosity=0)
    assert set(Article.objects.values_list("body", flat=True)) == {"Edited."}


def test_seeded_rows_are_reported(newsroom: None, capsys: pytest.CaptureFixture[str]) -> None:
    Article.objects.all().delete()
    call_command("seed_newsroom")
    assert "Seeded 240 articles" in capsys.readouterr().out


@pytest.mark.parametrize("username", ["reader", "author", "editor", "admin"])
def test_user_of_each_role_can_log_in(newsroom: None, username: str) -> None:
    assert authenticate(username=username, password="demo") is not None


def test_authors_without_a_role_cannot_log_in(newsroom: None) -> None:
    assert authenticate(username="ada", password="!") is None


def test_each_role_is_a_group_with_more_permissions(user: Callable[[str], Any]) -> None:
    may = [user(name).get_all_permissions() for name in ("reader", "author", "editor", "admin")]
    assert may[0] < may[1] < may[2] < may[3]
    assert set(Group.objects.values_list("name", flat=True)) == {
        "reader",
        "author",
        "editor",
        "administrator",
    }


def test_role_with_an_unknown_permission_is_an_error() -> None:
    with pytest.raises(ImproperlyConfigured, match="fly_article"):
        _permissions(("view_article", "fly_article"))
