"""Lists in serializers with a query for each item are bounded before the first query."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from annotated_types import Len
from django import forms
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pydantic import Field
from rest_framework import serializers

from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from testproject.newsroom.models import Article, Section
from tests.support.serving import served, taking

pytestmark = pytest.mark.django_db
SECTIONS = Section.objects.all()
Serializer = serializers.Serializer[Any]


class KeySerializer(Serializer):
    of = serializers.PrimaryKeyRelatedField(many=True, queryset=SECTIONS)


class SlugSerializer(Serializer):
    of = serializers.SlugRelatedField(slug_field="slug", many=True, queryset=SECTIONS)


class ListSerializer(Serializer):
    of = serializers.ListField(child=serializers.PrimaryKeyRelatedField(queryset=SECTIONS))


class DictSerializer(Serializer):
    of = serializers.DictField(child=serializers.PrimaryKeyRelatedField(queryset=SECTIONS))


class SectionSerializer(serializers.ModelSerializer[Section]):
    class Meta:
        model = Section
        fields = ["name", "slug"]


class UniqueSerializer(Serializer):
    of = SectionSerializer(many=True)


class InnerSerializer(Serializer):
    section = serializers.PrimaryKeyRelatedField(queryset=SECTIONS)


class RelatedSerializer(Serializer):
    of = InnerSerializer(many=True)


class MonthSerializer(serializers.ModelSerializer[Article]):
    published_at = serializers.DateTimeField()

    class Meta:
        model = Article
        fields = ["title", "published_at"]
        validators = [
            serializers.UniqueForMonthValidator(Article.objects.all(), "title", "published_at")
        ]


class MonthsSerializer(Serializer):
    of = MonthSerializer(many=True)


ITEMS: dict[Any, Any] = {
    KeySerializer: 1,
    SlugSerializer: "sport",
    ListSerializer: 1,
    UniqueSerializer: {"name": "Sport", "slug": "sport"},
    RelatedSerializer: {"section": 1},
    MonthsSerializer: {"title": "A", "published_at": "2026-11-23T10:00:00Z"},
}


@pytest.fixture(autouse=True)
def section() -> Section:
    return Section.objects.create(pk=1, name="Sport", slug="sport")


def called(client: CheckedClient, value: Any) -> tuple[Any, int]:
    """Return the result of a call, and how many queries asked for sections or articles."""
    with CaptureQueriesContext(connection) as queries:
        result = client.call_tool("take", {"value": value})
    asked = [each for each in queries.captured_queries if 'FROM "newsroom_' in each["sql"]]
    return result, len(asked)


def schema_of(name: str = "value") -> Any:
    schema: Any = served("take").input_schema["properties"][name]
    return schema


@pytest.mark.parametrize("kind", ITEMS, ids=lambda kind: kind.__name__)
def test_list_with_database_lookups_has_a_maximum(
    kind: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(kind))
    assert schema_of()["properties"]["of"]["maxItems"] == 1000
    result, asked = called(modern, {"of": [ITEMS[kind]] * 1001})
    assert (result["isError"], asked) == (True, 0)
    assert "/value/of" in text_of(result)
    assert "1000" in text_of(result)
    assert 0 < called(modern, {"of": [ITEMS[kind]] * 3})[1] <= 10


def test_dict_with_database_lookups_has_a_maximum(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(DictSerializer))
    assert schema_of()["properties"]["of"]["maxProperties"] == 1000
    result, asked = called(modern, {"of": {str(n): 1 for n in range(1001)}})
    assert (result["isError"], asked) == (True, 0)
    assert not called(modern, {"of": {"a": 1}})[0]["isError"]


def test_list_of_serializers_has_a_maximum(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(list[InnerSerializer]))
    assert schema_of()["maxItems"] == 1000
    result, asked = called(modern, [{"section": 1}] * 1001)
    assert (result["isError"], asked) == (True, 0)
    assert not called(modern, [{"section": 1}] * 2)[0]["isError"]


@pytest.mark.parametrize("most", [None, 3])
def test_multiple_model_choice_has_a_maximum(
    most: int | None, modern: CheckedClient, settings: Any
) -> None:
    """For each of them Django makes a query that it does not send: 100,000 took 13 seconds."""

    class Choosing(forms.Form):
        of = forms.ModelMultipleChoiceField(SECTIONS)
        of.max_length = most  # type: ignore[attr-defined]

    serve(settings, taking(Choosing))
    assert schema_of()["properties"]["of"]["maxItems"] == (most or 1000)
    result, asked = called(modern, {"of": list(range((most or 1000) + 1))})
    assert (result["isError"], asked) == (True, 0)
    assert not called(modern, {"of": [1]})[0]["isError"]


def test_lists_without_database_lookups_have_no_maximum(settings: Any) -> None:
    class Line(Serializer):
        code = serializers.CharField()
        section = serializers.PrimaryKeyRelatedField(read_only=True)

    class Plain(Serializer):
        lines = Line(many=True)
        texts = serializers.ListField(child=serializers.CharField())
        known = serializers.PrimaryKeyRelatedField(many=True, read_only=True)
        one = serializers.PrimaryKeyRelatedField(queryset=SECTIONS)
        pairs = serializers.DictField(child=serializers.CharField())

    serve(settings, taking(Plain))
    assert "maxItems" not in str(schema_of())
    assert "maxProperties" not in str(schema_of())


@pytest.mark.parametrize("most", [2, 1500])
def test_explicit_max_length_replaces_the_default(
    most: int, modern: CheckedClient, settings: Any
) -> None:
    class Bounded(Serializer):
        keys = serializers.PrimaryKeyRelatedField(many=True, queryset=SECTIONS, default=[])
        listed = serializers.ListField(
            child=serializers.PrimaryKeyRelatedField(queryset=SECTIONS),
            max_length=most,
            default=[],
        )
        rows = InnerSerializer(many=True, max_length=most, default=[])

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.fields["keys"].max_length = most

    serve(settings, taking(Bounded))
    for name, item in [("keys", 1), ("listed", 1), ("rows", {"section": 1})]:
        assert schema_of()["properties"][name]["maxItems"] == most
        assert not called(modern, {name: [item] * most})[0]["isError"]
        result, asked = called(modern, {name: [item] * (most + 1)})
        assert (result["isError"], asked) == (True, 0)


@pytest.mark.parametrize("bound", [Field(max_length=1500), Len(0, 1500)])
def test_max_length_of_the_hint_replaces_the_default(
    bound: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(Annotated[list[InnerSerializer], bound]))
    assert schema_of()["maxItems"] == 1500
    assert not called(modern, [{"section": 1}] * 1500)[0]["isError"]
    result, asked = called(modern, [{"section": 1}] * 1501)
    assert (result["isError"], asked) == (True, 0)


class GroupSerializer(Serializer):
    rows = RelatedSerializer(many=True)
    more = serializers.PrimaryKeyRelatedField(many=True, queryset=SECTIONS, required=False)


def test_nested_lists_are_counted_together(modern: CheckedClient, settings: Any) -> None:
    serve(settings, taking(GroupSerializer))
    group = {"of": [{"section": 1}] * 200}
    result, asked = called(modern, {"rows": [group] * 4, "more": [1] * 201})
    assert (result["isError"], asked) == (True, 0)
    assert "/value" in text_of(result)
    assert "have 1,001 items in total that are looked up one by one" in text_of(result)
    assert not called(modern, {"rows": [group] * 4, "more": [1] * 200})[0]["isError"]


def test_explicitly_bounded_list_counts_as_its_largest_item(
    modern: CheckedClient, settings: Any
) -> None:
    class Bounded(Serializer):
        rows = RelatedSerializer(many=True, max_length=3)

    serve(settings, taking(Bounded))
    group = {"of": [{"section": 1}] * 400}
    assert not called(modern, {"rows": [group] * 3})[0]["isError"]
    assert called(modern, {"rows": [group] * 4})[0]["isError"]
