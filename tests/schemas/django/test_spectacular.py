"""Serializers that a site describes to drf-spectacular, through the endpoint."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from django.conf import settings as configured
from drf_spectacular import drainage, extensions
from drf_spectacular.settings import patched_settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from testproject.newsroom.models import Article
from tests.calls.test_arguments import errors_of
from tests.contract.test_results import assert_fault
from tests.schemas.django.test_serializers import STRING, ArticleSerializer, OrderSerializer
from tests.schemas.kinds import nullable
from tests.support.serving import giving, messages, served, taking

INTEGER = {"type": "integer"}


@extend_schema_field({**INTEGER, "minimum": 0, "exclusiveMinimum": True, "example": 7})
class Coin(serializers.Field[Any, Any, Any, Any]):
    def to_internal_value(self, data: Any) -> Any:
        if data == 13:
            raise serializers.ValidationError("not that one", code="unlucky")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class Point(serializers.Field[Any, Any, Any, Any]):
    def to_internal_value(self, data: Any) -> Any:
        return tuple(data)

    def to_representation(self, value: Any) -> Any:
        return list(value)


class Unknown(Point):
    """A field without a description of its type."""


class PointExtension(extensions.OpenApiSerializerFieldExtension):
    target_class = Point

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Any:
        return {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}


class PartSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField(read_only=True)
    key = serializers.CharField(write_only=True)
    note = serializers.CharField(allow_null=True)


@extend_schema_field(PartSerializer)
class Part(Point):
    """A field that a serializer describes."""

    def to_internal_value(self, data: Any) -> Any:
        return data

    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_serializer(
    exclude_fields=["secret"], deprecate_fields=["old"], description="What is bought."
)
class PurchaseSerializer(serializers.Serializer[Any]):
    coin = Coin()
    at = Point(required=False)
    part = Part(required=False)
    maybe = Coin(allow_null=True, required=False, help_text="or none")
    old = serializers.CharField(required=False)
    secret = serializers.CharField(required=False)
    sum = serializers.SerializerMethodField()
    unknown = Unknown(read_only=True)

    @extend_schema_field(OpenApiTypes.DATE)
    def get_sum(self, value: Any) -> Any:
        return value.get("day")


class MapSerializer(serializers.Serializer[Any]):
    """A serializer whose shape differs from its fields."""

    def to_internal_value(self, data: Any) -> Any:
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class MapExtension(extensions.OpenApiSerializerExtension):
    target_class = MapSerializer

    def map_serializer(self, auto_schema: Any, direction: Any) -> Any:
        component = auto_schema.resolve_serializer(PartSerializer, direction)
        return {"type": "object", "additionalProperties": component.ref}


@extend_schema_field({"type": "string", "enum": ["a"], "nullable": True})
class TextSerializer(MapSerializer):
    """A serializer that is a string to its callers."""


class LoopSerializer(MapSerializer):
    """A serializer with itself as a member."""


class LoopExtension(extensions.OpenApiSerializerExtension):
    target_class = LoopSerializer

    def map_serializer(self, auto_schema: Any, direction: Any) -> Any:
        return {"properties": {"next": auto_schema.resolve_serializer(self.target, direction).ref}}


class ReadSerializer(serializers.ModelSerializer[Article]):
    word_count = serializers.ReadOnlyField()

    class Meta:
        model = Article
        fields = ["section", "word_count"]
        read_only_fields = ["section"]


class UnknownSerializer(serializers.Serializer[Any]):
    value = Unknown()


@pytest.fixture
def spectacular(settings: Any, capfd: Any) -> Any:
    """Install drf-spectacular, and check that its state and output stay as they were."""
    before = copy.deepcopy(vars(drainage.GENERATOR_STATS))
    caches = [
        dict(drainage.GENERATOR_STATS._warn_cache),
        dict(drainage.GENERATOR_STATS._error_cache),
    ]
    settings.INSTALLED_APPS = [*configured.INSTALLED_APPS, "drf_spectacular"]
    yield
    assert (vars(drainage.GENERATOR_STATS) or {"silent": False}) == (before or {"silent": False})
    assert caches == [drainage.GENERATOR_STATS._warn_cache, drainage.GENERATOR_STATS._error_cache]
    assert "rning" not in capfd.readouterr().err


def parameter(hint: Any, settings: Any) -> Any:
    serve(settings, taking(hint))
    assert messages("mcp_bridge.E006") == []
    return served("take").input_schema["properties"]["value"]


def result(hint: Any, settings: Any) -> Any:
    serve(settings, giving(hint, None))
    assert messages("mcp_bridge.E006") == []
    return served("give").output_schema


COIN = {**INTEGER, "exclusiveMinimum": 0}
POINT = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}


def test_parameter_schema_is_the_sites(spectacular: Any, settings: Any) -> None:
    schema = parameter(PurchaseSerializer, settings)
    assert schema["description"] == "What is bought."
    assert (schema["required"], schema["additionalProperties"]) == (["coin"], False)
    properties = schema["properties"]
    part = properties.pop("part")["properties"]
    assert part == {"key": STRING, "note": nullable(STRING)}
    assert properties == {
        "coin": COIN,
        "at": POINT,
        "maybe": {**nullable(COIN), "description": "or none."},
        "old": {**STRING, "minLength": 1, "deprecated": True},
    }


def test_result_schema_is_the_sites(spectacular: Any, settings: Any) -> None:
    schema = result(PurchaseSerializer, settings)
    properties = schema["properties"]
    assert set(properties) == {"coin", "at", "part", "maybe", "old", "sum", "unknown"}
    assert properties["coin"] == {"anyOf": [COIN, {"type": "null"}]}
    assert properties["unknown"] == {"anyOf": [{}, {"type": "null"}]}
    assert properties["sum"] == nullable({**STRING, "format": "date"})
    assert set(properties["part"]["anyOf"][0]["properties"]) == {"id", "note"}


def test_serializer_schema_uses_its_extension(spectacular: Any, settings: Any) -> None:
    shape = parameter(MapSerializer, settings)["additionalProperties"]
    assert set(shape["properties"]) == set(shape["required"]) == {"key", "note"}
    items = result(list[MapSerializer], settings)["properties"]["result"]["items"]
    assert set(items["additionalProperties"]["properties"]) == {"id", "note"}


def test_serializer_schema_can_be_a_non_object(spectacular: Any, settings: Any) -> None:
    text = {"type": "string", "enum": ["a"]}
    assert parameter(TextSerializer, settings) == text
    assert result(TextSerializer, settings)["properties"]["result"] == nullable(text)


@pytest.mark.parametrize("kind", [PurchaseSerializer, MapSerializer, TextSerializer])
def test_openapi_versions_yield_the_same_schema(kind: Any, spectacular: Any, settings: Any) -> None:
    older = parameter(kind, settings), result(kind, settings)
    with patched_settings({"OAS_VERSION": "3.1.1"}):
        assert (parameter(kind, settings), result(kind, settings)) == older


def test_recursive_schema_is_reported(spectacular: Any, settings: Any) -> None:
    serve(settings, taking(LoopSerializer))
    assert "a recursive schema" in messages("mcp_bridge.E006")[0]


def test_type_known_only_to_the_database_is_queried(spectacular: Any, settings: Any) -> None:
    section = result(ReadSerializer, settings)["properties"]["section"]
    assert section["anyOf"][0]["type"] == "integer"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"coin": 0}, [("/value/coin", "exclusiveMinimum")]),
        ({"coin": 13}, [("/value/coin", "unlucky")]),
        ({"coin": 1, "at": [1]}, [("/value/at", "minItems")]),
        ({"coin": 1, "at": [1, "x"]}, [("/value/at/1", "type")]),
        ({"coin": None}, [("/value/coin", "type")]),
        ({"coin": 1, "secret": "x"}, [("/value/secret", "extra_forbidden")]),
    ],
)
def test_sites_schema_is_enforced(
    sent: Any, expected: Any, spectacular: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, taking(PurchaseSerializer))
    assert errors_of(modern.call_tool("take", {"value": sent})) == expected


def test_procedure_receives_the_valid_serializer(
    spectacular: Any, modern: CheckedClient, settings: Any
) -> None:
    def buy(value: PurchaseSerializer) -> str:
        """Buy."""
        return repr(value.validated_data)

    def draw(value: MapSerializer) -> str:
        """Draw."""
        return repr(value.validated_data)

    serve(settings, buy, draw)
    sent = {"coin": 2, "at": [1, 2.5], "maybe": None}
    received = {"coin": 2, "at": (1, 2.5), "maybe": None}
    assert text_of(modern.call_tool("buy", {"value": sent})) == repr(received)
    sent = {"a": {"key": "k", "note": None}}
    assert text_of(modern.call_tool("draw", {"value": sent})) == repr(sent)
    assert errors_of(modern.call_tool("draw", {"value": {"a": {"key": 1, "note": "n"}}})) == [
        ("/value/a/key", "type")
    ]


def test_result_is_checked_against_the_sites_schema(
    spectacular: Any, modern: CheckedClient, settings: Any
) -> None:
    bought = {"coin": 5, "at": [1, 2], "secret": "x", "unknown": [3], "maybe": None}
    shown = {"coin": 5, "at": [1, 2], "maybe": None, "sum": None, "unknown": [3]}
    serve(settings, giving(PurchaseSerializer, bought))
    assert json.loads(text_of(modern.call_tool("give"))) == shown
    serve(settings, giving(PurchaseSerializer, {**bought, "day": 5}))
    assert_fault(modern.call_tool("give"))
    serve(settings, giving(list[MapSerializer], [{"a": {"id": 1, "note": "n"}}]))
    assert json.loads(text_of(modern.call_tool("give"))) == [{"a": {"id": 1, "note": "n"}}]


@pytest.mark.parametrize("kind", [OrderSerializer, ArticleSerializer])
def test_other_serializers_are_the_same_with_drf_spectacular(kind: Any, settings: Any) -> None:
    def both() -> Any:
        serve(settings, taking(kind), giving(kind, None))
        return served("take").input_schema, served("give").output_schema

    without = both()
    settings.INSTALLED_APPS = [*configured.INSTALLED_APPS, "drf_spectacular"]
    assert both() == without


def test_field_with_a_guessed_type_is_reported(spectacular: Any, settings: Any) -> None:
    serve(settings, taking(UnknownSerializer))
    assert "'value' (Unknown) cannot be JSON" in messages("mcp_bridge.E006")[0]


def test_drf_spectacular_is_unused_if_not_installed(settings: Any) -> None:
    serve(settings, taking(PurchaseSerializer))
    assert "'coin' (Coin) cannot be JSON" in messages("mcp_bridge.E006")[0]
