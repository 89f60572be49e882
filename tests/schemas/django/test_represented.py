"""Serializers as return hints: null and absent members, and custom representations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as site
from django.core import checks
from jsonschema import Draft202012Validator
from rest_framework import serializers

from mcp_bridge.registry.registry import registry
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from testproject.newsroom.models import Author, Section
from tests.support.schemas import ASSERTED
from tests.support.serving import giving, messages


class AuthorSerializer(serializers.ModelSerializer[Author]):
    class Meta:
        model = Author
        fields = ("id", "byline")


class NewsSerializer(serializers.Serializer[Any]):
    title = serializers.CharField()
    published = serializers.DateTimeField()
    author = AuthorSerializer()
    section = serializers.PrimaryKeyRelatedField(queryset=Section.objects.all())
    slug = serializers.SlugRelatedField("slug", source="section", read_only=True)
    byline = serializers.CharField(source="author.byline", read_only=True)
    words = serializers.ListField(child=serializers.IntegerField())
    counts = serializers.DictField(child=serializers.FloatField())
    kind = serializers.ChoiceField(["a", "b"])
    day = serializers.DateField(required=False)


NULLS = dict.fromkeys(["title", "published", "author", "section", "words", "counts", "kind", "day"])
FULL = {
    **NULLS,
    "title": "News",
    "author": SimpleNamespace(id=1, byline="Ada"),
    "words": [1, None],
    "counts": {"a": None, "b": 1.5},
    "kind": "a",
}


NULLABLE: list[tuple[Any, Any]] = [
    (NewsSerializer, SimpleNamespace(**NULLS)),
    (NewsSerializer, SimpleNamespace(**FULL)),
    (NewsSerializer, NULLS),
    (list[NewsSerializer], [SimpleNamespace(**NULLS), SimpleNamespace(**FULL)]),
    (NewsSerializer | None, SimpleNamespace(**NULLS)),
    (NewsSerializer, NewsSerializer(SimpleNamespace(**NULLS))),
]


class Titled(serializers.Serializer[Any]):
    def to_representation(self, instance: Any) -> Any:
        return instance["title"].upper()


class Shelf(serializers.Serializer[Any]):
    first = Titled()


class Wrapped(NewsSerializer):
    def to_representation(self, instance: Any) -> Any:
        return {"type": "news", "attributes": super().to_representation(instance)}


class Counted(serializers.ListSerializer[Any]):
    def to_representation(self, data: Any) -> Any:
        return [{"count": len(data)}]


class Grouped(serializers.Serializer[Any]):
    title = serializers.CharField()

    class Meta:
        list_serializer_class = Counted


class Money(serializers.DecimalField):
    def to_representation(self, value: Any) -> Any:
        return {"amount": str(value), "currency": "EUR"}


class Priced(serializers.Serializer[Any]):
    price = Money(max_digits=5, decimal_places=2)
    news = Wrapped()
    all = Wrapped(many=True)


def given(client: CheckedClient, settings: Any, hint: Any, value: Any) -> tuple[Any, Any]:
    """Return the output schema of a tool that gives a value, and what it sends, which fits."""
    serve(settings, giving(hint, value))
    assert messages("mcp_bridge.E006") == []
    schema = client.list_tools()[0]["outputSchema"]
    answer = client.call_tool("give")
    assert answer["isError"] is False, answer
    structured = answer["structuredContent"]
    Draft202012Validator(schema, format_checker=ASSERTED).validate(structured)
    return schema, structured


@pytest.mark.parametrize(("hint", "value"), NULLABLE)
def test_null_members_of_a_representation_are_sent(
    hint: Any, value: Any, modern: CheckedClient, settings: Any
) -> None:
    _, structured = given(modern, settings, hint, value)
    rows = structured.get("result", structured)
    row = rows[0] if isinstance(rows, list) else rows
    assert row["published"] is None
    assert ("byline" in row) is (row["author"] is not None)


def test_overridden_representation_makes_all_members_nullable(
    modern: CheckedClient, settings: Any
) -> None:
    schema, _ = given(modern, settings, NewsSerializer, SimpleNamespace(**NULLS))
    properties = schema["properties"]
    assert [
        name for name, each in properties.items() if each.get("anyOf", [{}])[-1] != {"type": "null"}
    ] == []
    assert properties.keys() - set(schema["required"]) == {"byline", "day"}


OWN: list[tuple[Any, Any, Any, list[str]]] = [
    (list[Shelf], [{"first": {"title": "a"}}], [{"first": "A"}], ["Titled"]),
    (Wrapped, SimpleNamespace(**NULLS), None, ["Wrapped"]),
    (list[Wrapped], [SimpleNamespace(**NULLS)], None, ["Wrapped"]),
    (list[Grouped], [{"title": "a"}], [{"count": 1}], ["Counted"]),
    (
        Priced,
        {"price": 5, "news": FULL, "all": [FULL]},
        None,
        ["Money", "Wrapped"],
    ),
    (dict[str, Wrapped | None], {"a": FULL, "b": None}, None, ["Wrapped"]),
]


@pytest.mark.parametrize(("hint", "value", "expected", "named"), OWN)
def test_custom_representations_are_sent_with_a_warning(
    hint: Any, value: Any, expected: Any, named: list[str], modern: CheckedClient, settings: Any
) -> None:
    _, structured = given(modern, settings, hint, value)
    if expected is not None:
        assert structured == {"result": expected}
    warnings = [each for each in registry.discovered.messages if each.id == "mcp_bridge.W037"]
    assert [each.level for each in warnings] == [checks.WARNING] * len(named)
    assert all(
        f"takes any value from {name} ({__name__}), which has its own to_representation()"
        in each.msg
        for name, each in zip(named, warnings, strict=True)
    )


def test_explicit_output_schema_causes_no_warning(modern: CheckedClient, settings: Any) -> None:
    by_hand = {"type": "object", "properties": {"type": {"const": "news"}}}
    serve(settings, giving(Wrapped, SimpleNamespace(**NULLS)), output_schema=by_hand)
    assert messages("mcp_bridge.W037") == []


def test_described_representations_cause_no_warning(modern: CheckedClient, settings: Any) -> None:
    settings.INSTALLED_APPS = [*site.INSTALLED_APPS, "drf_spectacular"]
    from drf_spectacular.utils import extend_schema_field

    @extend_schema_field({"type": "object", "properties": {"type": {"type": "string"}}})
    class Described(Wrapped):
        pass

    schema, structured = given(modern, settings, Described, SimpleNamespace(**NULLS))
    assert schema["properties"]["type"] == {"type": "string"}
    assert structured["type"] == "news"
    assert messages("mcp_bridge.W037") == []
