"""Model instances and querysets as results of a declared shape, through the endpoint."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple, NotRequired

import pytest
from django.contrib.auth.models import Group, Permission, User
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from testproject.newsroom.models import Article, Author, Section
from tests.contract.test_results import assert_fault
from tests.support.serving import giving, messages


@dataclass(frozen=True, slots=True)
class Row:
    id: int
    name: str


class TypedRow(TypedDict):
    id: int
    name: NotRequired[str]


class ModelRow(BaseModel):
    id: int = Field(serialization_alias="pk")
    name: str = ""


class TupleRow(NamedTuple):
    id: int
    name: str


@dataclass
class SectionRow:
    slug: str


@dataclass
class ArticleRow:
    title: str
    section: SectionRow
    status: Article.Status


@dataclass
class UserRow:
    username: str
    groups: list[Row]
    author: SectionRow | None


@dataclass
class Page:
    total: int
    rows: list[Row]


class TypedPage(TypedDict):
    rows: list[Row]


class Groups:
    """Values that are created once the database is available."""

    one = staticmethod(lambda: Group.objects.get(name="a"))
    all = staticmethod(lambda: Group.objects.order_by("id"))
    listed = staticmethod(lambda: list(Group.objects.order_by("id")))


@pytest.fixture
def groups(db: None) -> list[Group]:
    return [Group.objects.create(id=id, name=name) for id, name in ((1, "a"), (2, "b"))]


A, B = {"id": 1, "name": "a"}, {"id": 2, "name": "b"}
TABLE: list[tuple[Any, Any, Any]] = [
    (Row, Groups.one, A),
    (TypedRow, Groups.one, A),
    (ModelRow, Groups.one, {"pk": 1, "name": "a"}),
    (TupleRow, Groups.one, [1, "a"]),
    (Row | None, Groups.one, A),
    (list[Row], Groups.all, [A, B]),
    (list[Row], Groups.listed, [A, B]),
    (list[TypedRow], Groups.all, [A, B]),
    (list[ModelRow], Groups.all, [{"pk": 1, "name": "a"}, {"pk": 2, "name": "b"}]),
    (tuple[Row, ...], Groups.all, [A, B]),
    (list[Row], lambda: Group.objects.none(), []),
    (list[Row], lambda: Group.objects.order_by("id").values("id", "name"), [A, B]),
    (list[str], lambda: Group.objects.order_by("id").values_list("name", flat=True), ["a", "b"]),
    (dict[str, Row], lambda: {"x": Groups.one()}, {"x": A}),
    (Page, lambda: Page(total=2, rows=Groups.all()), {"total": 2, "rows": [A, B]}),
    (TypedPage, lambda: {"rows": Groups.all()}, {"rows": [A, B]}),
]


@pytest.mark.parametrize(("hint", "make", "written"), TABLE, ids=range(len(TABLE)))
def test_models_are_written_as_declared(
    hint: Any, make: Any, written: Any, groups: Any, modern: CheckedClient, settings: Any
) -> None:
    def give() -> Any:
        """Give."""
        return make()

    give.__annotations__ = {"return": hint}
    serve(settings, give)
    result = modern.call_tool("give")
    assert json.loads(text_of(result)) == written
    whole = result["structuredContent"]
    assert whole.get("result", whole) == written


def test_relations_are_followed(groups: Any, user: User, modern: Any, settings: Any) -> None:
    user.groups.set(groups)
    serve(settings, giving(UserRow, user))
    written = json.loads(text_of(modern.call_tool("give")))
    assert sorted(written["groups"], key=lambda row: row["id"]) == [A, B]
    assert written["author"] is None


def test_nested_instance_has_its_own_shape(user: User, modern: Any, settings: Any) -> None:
    section = Section.objects.create(name="Sport", slug="sport")
    author = Author.objects.create(user=user, byline="Ada")
    article = Article(title="News", section=section, author=author, status="draft")
    serve(settings, giving(ArticleRow, article))
    written = {"title": "News", "section": {"slug": "sport"}, "status": "draft"}
    assert json.loads(text_of(modern.call_tool("give"))) == written


@pytest.mark.parametrize("hint", [SectionRow, list[SectionRow], str, list[str], Any])
def test_invalid_value_for_the_shape_is_an_internal_error(
    hint: Any, groups: Any, modern: Any, settings: Any
) -> None:
    serve(settings, giving(hint, Permission(name="x")))
    assert_fault(modern.call_tool("give"))


def test_returned_value_is_not_modified(groups: Any, modern: Any, settings: Any) -> None:
    page = Page(total=2, rows=Groups.all())
    serve(settings, giving(Page, page))
    modern.call_tool("give")
    assert not isinstance(page.rows, list)


def test_model_without_a_shape_is_reported(settings: Any) -> None:
    serve(settings, giving(Group, None))
    assert len(messages("mcp_bridge.E006")) == 1
