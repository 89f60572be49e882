"""Serializers of Django REST framework as parameters and results, through the endpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group
from rest_framework import serializers

from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from testproject.newsroom.models import Article, Author, Section
from tests.calls.test_arguments import errors_of
from tests.contract.test_results import assert_fault
from tests.schemas.kinds import nullable
from tests.support.serving import giving, messages, served, taking

STRING = {"type": "string"}


class LineSerializer(serializers.Serializer[Any]):
    code = serializers.CharField(max_length=4)
    count = serializers.IntegerField(min_value=1, default=1)


class OrderSerializer(serializers.Serializer[Any]):
    """An order."""

    id = serializers.IntegerField(read_only=True)
    pin = serializers.CharField(write_only=True)
    state = serializers.ChoiceField([("o", "Open"), ("s", "Sent")], help_text="how far it is")
    lines = LineSerializer(many=True)
    gift = LineSerializer(required=False, allow_null=True)
    due = serializers.DateField(required=False)
    price = serializers.DecimalField(max_digits=5, decimal_places=2, required=False)
    tags = serializers.ListField(child=serializers.CharField(), required=False, max_length=2)
    group = serializers.PrimaryKeyRelatedField(queryset=Group.objects.all(), required=False)

    def validate_pin(self, value: str) -> str:
        if value == "0000":
            raise serializers.ValidationError("{too} simple", code="simple")
        return value

    def validate(self, attrs: Any) -> Any:
        if attrs["state"] == "s" and not attrs.get("due"):
            raise serializers.ValidationError("What is sent is due.")
        return attrs


class ArticleSerializer(serializers.ModelSerializer[Article]):
    section = serializers.SlugRelatedField("slug", queryset=Section.objects.all())
    words = serializers.SerializerMethodField()

    class Meta:
        model = Article
        fields = ["id", "title", "section", "status", "words", "published_at", "created_at"]

    def get_words(self, article: Article) -> int:
        return len(article.body.split())


class SectionSerializer(serializers.ModelSerializer[Section]):
    class Meta:
        model = Section
        fields = ["name", "slug", "description"]


GOOD = {"pin": "1234", "state": "o", "lines": [{"code": "a"}]}
LINE = {
    "type": "object",
    "properties": {
        "code": {**STRING, "minLength": 1, "maxLength": 4},
        "count": {"type": "integer", "minimum": 1, "default": 1},
    },
    "required": ["code"],
    "additionalProperties": False,
}


def order(data: OrderSerializer) -> str:
    """Order."""
    return json.dumps(data.validated_data, default=str)


def orders(data: list[LineSerializer]) -> str:
    """Order many."""
    return json.dumps(data.validated_data)  # type: ignore[attr-defined]


def add(data: SectionSerializer) -> str:
    """Add a section."""
    return str(data.save().slug)


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("pin", {**STRING, "minLength": 1}),
        (
            "state",
            {**STRING, "enum": ["o", "s"], "description": "how far it is. o: Open; s: Sent."},
        ),
        ("lines", {"type": "array", "items": LINE}),
        ("gift", nullable(LINE)),
        ("due", {**STRING, "format": "date"}),
        ("tags", {"type": "array", "items": {**STRING, "minLength": 1}, "maxItems": 2}),
        ("group", {"type": "integer"}),
    ],
)
def test_writable_field_schema_matches_its_row(name: str, schema: Any, settings: Any) -> None:
    serve(settings, order)
    assert messages("mcp_bridge.E006") == []
    data = served("order").input_schema["properties"]["data"]
    assert data["properties"][name] == schema
    assert (data["required"], data["description"]) == (["pin", "state", "lines"], "An order.")
    assert "id" not in data["properties"]


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ({}, {}),
        ({"due": "2024-02-29"}, {"due": "2024-02-29"}),
        ({"price": 1.5}, {"price": "1.50"}),
        ({"gift": None}, {"gift": None}),
        ({"gift": {"code": "b", "count": 2}}, {"gift": {"code": "b", "count": 2}}),
    ],
)
def test_procedure_receives_the_valid_serializer(
    sent: Any, received: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, order)
    written = json.loads(text_of(modern.call_tool("order", {"data": {**GOOD, **sent}})))
    assert written == {**GOOD, "lines": [{"code": "a", "count": 1}], **received}


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"id": 1}, [("/data/id", "extra_forbidden")]),
        ({"lines": [{"code": "a", "count": 0}]}, [("/data/lines/0/count", "greater_than_equal")]),
        ({"state": "x"}, [("/data/state", "literal_error")]),
        ({"pin": "0000", "group": 9}, [("/data/group", "does_not_exist"), ("/data/pin", "simple")]),
        ({"state": "s"}, [("/data", "invalid")]),
        ({"lines": [{"code": "a"}, {"code": " "}]}, [("/data/lines/1/code", "blank")]),
        ({"price": 12345}, [("/data/price", "max_whole_digits")]),
    ],
)
def test_errors_of_the_serializer_are_argument_errors(
    sent: Any, expected: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, order)
    assert errors_of(modern.call_tool("order", {"data": {**GOOD, **sent}})) == expected


def test_list_is_one_serializer_of_many(modern: CheckedClient, settings: Any) -> None:
    serve(settings, orders)
    result = modern.call_tool("orders", {"data": [{"code": "a"}, {"code": "b", "count": 3}]})
    assert json.loads(text_of(result)) == [{"code": "a", "count": 1}, {"code": "b", "count": 3}]
    errors = errors_of(modern.call_tool("orders", {"data": [{"code": "a"}, {"code": " "}]}))
    assert errors == [("/data/1/code", "blank")]


def test_model_serializer_saves(modern: CheckedClient, settings: Any) -> None:
    serve(settings, add)
    sent = {"data": {"name": "Sport", "slug": "sport"}}
    assert text_of(modern.call_tool("add", sent)) == "sport"
    assert errors_of(modern.call_tool("add", sent)) == [
        ("/data/name", "unique"),
        ("/data/slug", "unique"),
    ]


@pytest.fixture
def article(user: Any) -> Article:
    section = Section.objects.create(name="Sport", slug="sport")
    author = Author.objects.create(user=user, byline="Ada")
    return Article.objects.create(title="News", body="a b", section=section, author=author)


class NullSerializer(serializers.Serializer[Any]):
    due = serializers.DateField(default=None, allow_null=True)
    name = serializers.CharField(default=None)
    note = serializers.CharField(required=False, allow_null=True, allow_blank=True)


def test_null_default_is_described_only_if_nullable(settings: Any) -> None:
    serve(settings, taking(NullSerializer))
    assert served("take").input_schema["properties"]["value"]["properties"] == {
        "due": {**nullable({**STRING, "format": "date"}), "default": None},
        "name": {**STRING, "minLength": 1},
        "note": nullable(STRING),
    }


def test_schema_has_the_readable_fields(settings: Any) -> None:
    serve(settings, giving(ArticleSerializer, None))
    schema = served("give").output_schema or {}
    properties = schema["properties"]
    assert schema["required"] == ["id", "title", "section", "words", "published_at", "created_at"]
    assert properties["words"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]
    assert properties["published_at"] == nullable({**STRING, "format": "date-time"})
    assert properties["created_at"] == nullable({**STRING, "format": "date-time"})
    assert properties["section"] == nullable({**STRING, "maxLength": 60})


@pytest.mark.parametrize("many", [False, True])
def test_result_is_the_representation_of_the_serializer(
    many: bool, article: Any, modern: Any, settings: Any
) -> None:
    hint = list[ArticleSerializer] if many else ArticleSerializer
    serve(settings, giving(hint, Article.objects.all() if many else article))
    written = json.loads(text_of(modern.call_tool("give")))
    one = written[0] if many else written
    assert {key: one[key] for key in ("title", "section", "words", "status")} == {
        "title": "News",
        "section": "sport",
        "words": 2,
        "status": "draft",
    }


@pytest.mark.parametrize("value", [None, "article"])
def test_result_can_be_none(value: Any, article: Any, modern: Any, settings: Any) -> None:
    serve(settings, giving(ArticleSerializer | None, article if value else None))
    result = modern.call_tool("give")["structuredContent"]["result"]
    assert (result["title"] if value else result) == ("News" if value else None)


def test_none_is_not_a_representation(modern: Any, settings: Any) -> None:
    serve(settings, giving(ArticleSerializer, None))
    assert_fault(modern.call_tool("give"))


def test_serializer_can_be_returned(article: Any, modern: Any, settings: Any) -> None:
    serve(settings, giving(ArticleSerializer, ArticleSerializer(article)))
    assert json.loads(text_of(modern.call_tool("give")))["title"] == "News"


def test_write_only_fields_are_never_shown(modern: Any, settings: Any) -> None:
    order = {"id": 1, **GOOD, "lines": [{"code": "a", "count": 1}]}
    serve(settings, giving(OrderSerializer, order))
    assert "pin" not in (served("give").output_schema or {})["properties"]
    written = json.loads(text_of(modern.call_tool("give")))
    assert written == {"id": 1, "state": "o", "lines": order["lines"], "gift": None}


def test_serializer_without_a_json_shape_is_reported(settings: Any) -> None:
    class Coin(serializers.Field[Any, Any, Any, Any]):
        pass

    class Purse(serializers.Serializer[Any]):
        coin = Coin()

    serve(settings, taking(Purse))
    assert "'coin' (Coin) cannot be JSON" in messages("mcp_bridge.E006")[0]
