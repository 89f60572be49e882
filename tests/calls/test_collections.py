"""Collections of all kinds, returned for a declared list."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pytest
from asgiref.sync import sync_to_async
from django.core.paginator import Paginator
from pydantic import BaseModel
from rest_framework import serializers
from typing_extensions import TypedDict

from mcp_bridge.protocol import LATEST
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from testproject.newsroom.models import Section
from tests.contract.test_results import assert_fault
from tests.transports.test_async_view import async_caller

Make: TypeAlias = Callable[[], Any]


@dataclass
class Row:
    slug: str


class SectionSerializer(serializers.ModelSerializer[Section]):
    class Meta:
        model = Section
        fields = ["slug"]


@dataclass
class Page:
    total: int
    rows: list[Row]


@dataclass(slots=True)
class SlottedPage:
    total: int
    rows: list[Row] | None


class TypedPage(TypedDict):
    total: int
    rows: Sequence[Row]


class ModelPage(BaseModel, arbitrary_types_allowed=True):
    total: int
    rows: Any


class TuplePage(NamedTuple):
    total: int
    rows: list[Row]


@dataclass
class SerializedPage:
    total: int
    rows: list[SectionSerializer]


class Results:
    """A lazy collection of a library, such as those of search engines."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = items

    def __iter__(self) -> Any:
        return iter(self.items)


def same(each: Any) -> Any:
    return each


def sections() -> Any:
    return Section.objects.order_by("pk")


COLLECTIONS: dict[str, Make] = {
    "page of a paginator": lambda: Paginator(sections(), 2).page(1),
    "raw queryset": lambda: Section.objects.raw("SELECT * FROM newsroom_section ORDER BY id"),
    "own collection": lambda: Results(sections()),
    "map": lambda: map(same, sections()),
    "generator": lambda: (each for each in sections()),
    "iterator of a queryset": lambda: sections().iterator(),
    "values of a dict": lambda: {each.pk: each for each in sections()}.values(),
    "reversed": lambda: reversed(list(sections().reverse())),
    "tuple": lambda: tuple(sections()),
    "rows": lambda: (Row(each.slug) for each in sections()),
}
HINTS: list[Any] = [
    list[Row],
    list[Row] | None,
    Sequence[Row],
    Iterable[Row],
    tuple[Row, ...],
    list[SectionSerializer],
]
ROWS = [{"slug": "sport"}, {"slug": "arts"}]
EACH = pytest.mark.parametrize("make", COLLECTIONS.values(), ids=COLLECTIONS)


@pytest.fixture(autouse=True)
def rows(db: None) -> None:
    for slug in ("sport", "arts"):
        Section.objects.create(name=slug.title(), slug=slug)


def returning(hint: Any, make: Make) -> Any:
    def give() -> Any:
        """Give."""
        return make()

    give.__annotations__ = {"return": hint}
    return give


def given(client: CheckedClient) -> Any:
    return json.loads(text_of(client.call_tool("give")))


@EACH
@pytest.mark.parametrize("hint", HINTS, ids=str)
def test_collections_are_written_as_lists(
    hint: Any, make: Make, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, returning(hint, make))
    assert given(modern) == ROWS


@EACH
@pytest.mark.parametrize("page", [Page, SlottedPage, TypedPage, TuplePage, SerializedPage])
def test_collections_can_be_members(
    page: Any, make: Make, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, returning(page, lambda: page(total=2, rows=make())))
    assert given(modern) == ([2, ROWS] if page is TuplePage else {"total": 2, "rows": ROWS})


@pytest.mark.django_db(transaction=True)
@EACH
def test_collections_are_read_under_asgi(make: Make, settings: Any) -> None:
    async def give() -> Any:
        """Give."""
        return Page(total=2, rows=await sync_to_async(make)())

    give.__annotations__["return"] = Page
    serve(settings, give, asynchronous=True)
    assert given(async_caller(LATEST.version)) == {"total": 2, "rows": ROWS}


@pytest.mark.parametrize(
    ("hint", "value"),
    [(list[str], "text"), (list[str], {"a": "b"}), (list[int], b"ab"), (list[Row], 3)],
)
def test_strings_and_objects_are_not_lists(
    hint: Any, value: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, returning(hint, lambda: value))
    assert_fault(modern.call_tool("give"))


@pytest.mark.parametrize(
    ("hint", "make", "written"),
    [
        (list[str], {"a": 1, "b": 2}.keys, ["a", "b"]),
        (list[tuple[str, int]], {"a": 1}.items, [["a", 1]]),
        (list[int], lambda: range(3), [0, 1, 2]),
        (list, lambda: map(str, [1, 2]), ["1", "2"]),
        (set[int], lambda: {1: 2}.keys(), [1]),
        (dict[str, list[int]], lambda: {"a": map(int, "12")}, {"a": [1, 2]}),
        (list[list[int]], lambda: [range(2), {1: 2}.keys()], [[0, 1], [1]]),
    ],
)
def test_plain_items_are_listed(
    hint: Any, make: Make, written: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, returning(hint, make))
    assert given(modern) == written


def test_iterators_are_never_sent_partially(modern: CheckedClient, settings: Any) -> None:
    """The first section is read when the second member turns out to be a queryset."""

    def deep() -> Any:
        rows = (Row(each.slug) for each in sections())
        return [{"a": {"rows": rows, "others": sections()}}]

    serve(settings, returning(list[dict[str, dict[str, list[Row]]]], deep))
    assert_fault(modern.call_tool("give"))


def test_error_between_items_fails_the_call(modern: CheckedClient, settings: Any) -> None:
    def failing() -> Any:
        yield Section(slug="sport")
        raise RuntimeError("lost")

    serve(settings, returning(list[SectionSerializer], lambda: map(same, failing())))
    assert modern.call_tool("give")["isError"] is True
