"""Results with members of types of Django or REST framework, also from coroutines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from typing_extensions import TypedDict

from mcp_bridge.protocol import LATEST
from mcp_bridge.schemas.django import Lookup
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from testproject.newsroom.models import Article, Author, Section
from tests.calls.test_arguments import errors_of
from tests.contract.test_results import assert_fault
from tests.schemas.django.test_serializers import ArticleSerializer
from tests.support.serving import giving, messages
from tests.transports.test_async_view import async_caller


@dataclass
class Page:
    total: int
    rows: list[ArticleSerializer]
    first: ArticleSerializer | None = None


class TypedPage(TypedDict):
    rows: list[ArticleSerializer]


@dataclass
class SectionPage:
    name: str
    articles: list[ArticleSerializer]


@dataclass
class Bare:
    rows: list[Group]


@pytest.fixture
def section(user: Any) -> Section:
    section = Section.objects.create(name="Sport", slug="sport")
    author = Author.objects.create(user=user, byline="Ada")
    Article.objects.create(title="News", body="a b", section=section, author=author)
    return section


@pytest.mark.parametrize(
    ("hint", "make"),
    [
        (Page, lambda: Page(total=1, rows=Article.objects.all())),
        (Page, lambda: Page(total=1, rows=[], first=Article.objects.get())),
        (TypedPage, lambda: {"rows": Article.objects.all()}),
        (SectionPage, lambda: Section.objects.get()),
        (list[SectionPage], lambda: Section.objects.all()),
    ],
)
def test_serializer_is_a_member_of_a_result(
    hint: Any, make: Any, section: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, giving(hint, make()))
    assert messages("mcp_bridge.E006") == []
    written = json.loads(text_of(modern.call_tool("give")))
    page = written[0] if isinstance(written, list) else written
    (row,) = page.get("articles") or page.get("rows") or [page["first"]]
    assert (row["title"], row["section"], row["words"]) == ("News", "sport", 2)


@pytest.mark.parametrize("hint", [Group, list[Group], Bare])
def test_model_without_a_shape_is_refused_by_check(hint: Any, settings: Any) -> None:
    serve(settings, giving(hint, None))
    (message,) = messages("mcp_bridge.E006")
    assert "Group cannot be a result: declare the members to show" in message


# Under ASGI.


@dataclass
class Row:
    title: str
    section: SectionRow


@dataclass
class SectionRow:
    name: str


@dataclass
class Rows:
    rows: list[Row]


@dataclass
class Choice:
    section: Annotated[Section, Lookup("slug")]


LAZY: list[tuple[Any, Any, str]] = [
    (list[Row], lambda section: Article.objects.all(), "section"),
    (Row, lambda section: Article.objects.get, "section"),
    (Rows, lambda section: Rows(rows=section.articles), "section"),
    (list[ArticleSerializer], lambda section: section.articles.all(), "words"),
    (Page, lambda section: Page(total=1, rows=section.articles.all()), "words"),
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("hint", "make", "member"), LAZY, ids=range(len(LAZY)))
def test_coroutines_take_instances_and_return_querysets(
    hint: Any, make: Any, member: str, section: Section, settings: Any
) -> None:
    async def give(value: Choice) -> Any:
        """Give articles."""
        made = make(value.section)
        return await sync_to_async(made)() if callable(made) and hint is Row else made

    give.__annotations__["return"] = hint
    serve(settings, give, asynchronous=True)
    client = async_caller(LATEST.version)
    written = text_of(client.call_tool("give", {"value": {"section": "sport"}}))
    assert '"News"' in written
    assert f'"{member}"' in written
    errors = errors_of(client.call_tool("give", {"value": {"section": "x"}}))
    assert errors == [("/value/section", "not_found")]


@pytest.mark.django_db(transaction=True)
def test_invalid_result_of_a_coroutine_is_an_internal_error(section: Any, settings: Any) -> None:
    async def give() -> Any:
        """Give sections."""
        return Section.objects.all()

    give.__annotations__["return"] = list[Row]
    serve(settings, give, asynchronous=True)
    assert_fault(async_caller(LATEST.version).call_tool("give"))
