from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.cache import cache
from django.test.utils import override_settings

from testproject.newsroom.models import Article, Author, Section

SOURCE = {
    "BACKEND": "mcp_bridge.sources.rest_framework.RESTFrameworkSource",
    "OPTIONS": {
        "views": {
            "section-*": {"permissions": ["newsroom.view_section"], "prefix": "desk"},
            "tests.sources.rest_framework.views.Limited": {"name": "limits"},
        }
    },
}


@pytest.fixture(autouse=True, scope="module")
def rest_site(test_site: None) -> Iterator[None]:
    """The views and their tools, built once for each module."""
    options = {"SOURCES": {"drf": SOURCE}}
    urls = "tests.sources.rest_framework.urls"
    with override_settings(ROOT_URLCONF=urls, MCP_BRIDGE=options):
        yield


@pytest.fixture(autouse=True)
def no_cache_left() -> None:
    cache.clear()


@pytest.fixture
def articles(django_user_model: Any) -> list[Article]:
    writer = django_user_model.objects.create_user("writer")
    author = Author.objects.create(user=writer, byline="W. Riter")
    section = Section.objects.create(name="News", slug="news")
    return [
        Article.objects.create(
            title=f"Title {name}", slug=name, section=section, author=author, body="Text."
        )
        for name in ("a", "b", "c")
    ]


def allowed(user: Any, *codenames: str) -> Any:
    """Return the user with these permissions, reloaded from the database."""
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return type(user).objects.get(pk=user.pk)
