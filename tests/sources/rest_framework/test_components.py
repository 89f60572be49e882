"""Schemas of serializers: separate for each view even if names collide, and nullable choices."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.validators import RegexValidator
from django.db import models
from django.urls import path
from drf_spectacular.utils import (
    PolymorphicProxySerializer,
    extend_schema,
    extend_schema_field,
    extend_schema_serializer,
    inline_serializer,
)
from jsonschema import Draft202012Validator
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from mcp_bridge import mcp_tool
from mcp_bridge.registry.registry import registry
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route
from tests.support.serving import messages, names, served, set_tool

SOURCE = "mcp_bridge.sources.rest_framework.RESTFrameworkSource"


def offer(settings: Any, *views: type[APIView], **options: Any) -> None:
    """Serve these views and no others."""
    route(settings, *(path(f"{each.__name__}/", each.as_view()) for each in views))
    settings.MCP_BRIDGE = {"SOURCES": {"drf": {"BACKEND": SOURCE, "OPTIONS": options}}}


def view_of(name: str, request: Any, answer: Any = None) -> type[APIView]:
    """Return a view with a tool of that name, which says what it was sent."""

    class View(APIView):
        """Take it."""

        @extend_schema(request=request, responses=answer)
        @mcp_tool(name=name)
        def post(self, request: Any) -> Response:
            return Response(request.data)

    View.__name__ = name
    return View


def arguments(name: str) -> set[str]:
    return set(served(name).input_schema["properties"])


class Login:
    class InputSerializer(serializers.Serializer[Any]):
        email = serializers.EmailField()


class Payment:
    class InputSerializer(serializers.Serializer[Any]):
        amount = serializers.IntegerField()


class FormSerializer(serializers.Serializer[Any]):
    asked = serializers.CharField()


class FormRequestSerializer(serializers.Serializer[Any]):
    given = serializers.CharField()


def named(name: str) -> Any:
    """Return a serializer with the component name "Same"."""
    fields = {name: serializers.CharField()}
    return extend_schema_serializer(component_name="Same")(type("Any", (Chosen,), fields))


class Chosen(serializers.Serializer[Any]):
    """A serializer whose fields are named by its caller."""

    first = serializers.CharField()
    second = serializers.CharField()

    def __init__(self, *given: Any, only: str = "", **options: Any) -> None:
        super().__init__(*given, **options)
        for name in set(self.fields) - {only} if only else ():
            del self.fields[name]


class Pair(serializers.Serializer[Any]):
    left = Chosen(only="first")
    right = Chosen(only="second")


class Framed(serializers.Serializer[Any]):
    """A serializer that passes its own argument to a nested serializer."""

    def __init__(self, *given: Any, only: str = "", **options: Any) -> None:
        super().__init__(*given, **options)
        self.fields["inner"] = Chosen(only=only)


class FramedList(serializers.Serializer[Any]):
    def __init__(self, *given: Any, only: str = "", **options: Any) -> None:
        super().__init__(*given, **options)
        self.fields["inner"] = serializers.ListField(child=Chosen(only=only))


class FramedPair(serializers.Serializer[Any]):
    left = Framed(only="first")
    right = Framed(only="second")


class FramedListPair(serializers.Serializer[Any]):
    left = FramedList(only="first")
    right = FramedList(only="second")


class FramedLists(serializers.Serializer[Any]):
    left = Framed(only="first", many=True)
    right = Framed(only="second", many=True)


class Node(serializers.Serializer[Any]):
    """A serializer with itself as a member."""

    text = serializers.CharField()

    def get_fields(self) -> Any:
        slug = serializers.CharField(validators=[RegexValidator("[a-z]+")])
        return {**super().get_fields(), "slug": slug, "nodes": Node(many=True, required=False)}


class Choices(serializers.Serializer[Any]):
    left = serializers.ChoiceField(["a"])

    def __init__(self, *given: Any, only: str = "", **options: Any) -> None:
        super().__init__(*given, **options)
        self.fields["left"] = serializers.ChoiceField([only])


class ChoicesPair(serializers.Serializer[Any]):
    left = Choices(only="first")
    right = Choices(only="second")


@pytest.mark.parametrize(
    ("one", "two", "found"),
    [
        (Login.InputSerializer, Payment.InputSerializer, [{"email"}, {"amount"}]),
        (
            inline_serializer("Payload", {"a": serializers.CharField()}),
            inline_serializer("Payload", {"b": serializers.CharField()}),
            [{"a"}, {"b"}],
        ),
        (
            Login.InputSerializer(many=True),
            Payment.InputSerializer(many=True),
            [{"body"}, {"body"}],
        ),
        (Chosen(only="first"), Chosen(only="second"), [{"first"}, {"second"}]),
        (named("x"), named("y"), [{"first", "second", "x"}, {"first", "second", "y"}]),
    ],
    ids=["nested", "inline", "many", "instances", "component-name"],
)
@pytest.mark.parametrize("expose", ["marked", "all"])
def test_each_view_has_its_own_arguments(
    settings: Any, one: Any, two: Any, found: list[set[str]], expose: str
) -> None:
    offer(settings, view_of("one", one), view_of("two", two), expose=expose)
    assert [arguments("one"), arguments("two")] == found
    schemas = [str(served(name).input_schema["properties"]) for name in ("one", "two")]
    assert schemas[0] != schemas[1]


def test_request_and_response_schemas_of_one_name_differ(settings: Any) -> None:
    first = view_of("one", FormSerializer, FormRequestSerializer)
    second = view_of("two", FormRequestSerializer, FormSerializer)
    offer(settings, first, second, output_schemas=True)
    assert [arguments("one"), arguments("two")] == [{"asked"}, {"given"}]
    answers = [served(name).output_schema for name in ("one", "two")]
    assert [set(each["properties"]) for each in answers if each] == [{"given"}, {"asked"}]


def test_members_of_one_class_keep_their_own_fields(settings: Any) -> None:
    offer(settings, view_of("one", Pair))
    members = served("one").input_schema["properties"]
    assert set(members["left"]["properties"]) == {"first"}
    assert set(members["right"]["properties"]) == {"second"}


@pytest.mark.parametrize("kind", [FramedPair, FramedListPair, FramedLists, ChoicesPair])
def test_members_differ_by_their_nested_fields(settings: Any, kind: Any) -> None:
    offer(settings, view_of("one", kind))
    left, right = (
        str(served("one").input_schema["properties"][side]) for side in ("left", "right")
    )
    assert ("first" in left, "second" in left) == (True, False)
    assert ("first" in right, "second" in right) == (False, True)


def test_recursive_serializer_is_described(settings: Any) -> None:
    offer(settings, view_of("one", Node))
    assert "nodes" in served("one").input_schema["properties"]


class Kind(models.TextChoices):
    A = "a", "The first"
    B = "b", "The second"
    __empty__ = "None of them"


class Level(models.IntegerChoices):
    LOW = 1, "Low"
    HIGH = 2, "High"
    __empty__ = "Unknown"


@pytest.mark.parametrize(
    ("options", "values", "is_nullable"),
    [
        ({"choices": Kind.choices, "allow_null": True}, ["a", "b"], True),
        ({"choices": Kind.choices}, ["a", "b"], False),
        ({"choices": Level.choices, "allow_null": True}, [1, 2], True),
        ({"choices": [1, "auto"], "allow_null": True}, [1, "auto"], True),
        ({"choices": [1, "auto"]}, [1, "auto"], False),
        ({"choices": [(None, "-"), (1, "x"), ("y", "z")], "allow_null": True}, [1, "y"], True),
        ({"choices": [("G", [("a", "A"), ("b", "B")])], "allow_null": True}, ["a", "b"], True),
        ({"choices": [1.5, 2], "allow_null": True}, [1.5, 2], True),
    ],
    ids=str,
)
def test_nullable_choices_are_an_enum_or_null(
    settings: Any, user: Any, options: dict[str, Any], values: list[Any], is_nullable: bool
) -> None:
    class Choosing(serializers.Serializer[Any]):
        kind = serializers.ChoiceField(required=False, **options)

    class View(APIView):
        """Take or show a choice."""

        serializer_class = Choosing

        @extend_schema(request=Choosing, responses=Choosing)
        @mcp_tool(name="choose")
        def post(self, request: Any) -> Response:
            serializer = Choosing(data=request.data)
            serializer.is_valid(raise_exception=True)
            return Response(serializer.data)

        @mcp_tool(name="show")
        def get(self, request: Any) -> Response:
            return Response({"kind": values[0]})

    offer(settings, View, output_schemas=True)
    assert messages("mcp_bridge.E070") == []
    schema = served("choose").input_schema["properties"]["kind"]
    branches = schema.get("anyOf", [schema])
    assert [each.get("enum") for each in branches] == [values, None][: len(branches)]
    assert ({"type": "null"} in branches) is is_nullable
    client = CheckedClient(user=user)
    for value in [*values, *([None] if is_nullable else [])]:
        result = client.call_tool("choose", {"kind": value})
        assert not result.get("isError"), text_of(result)
        assert result["structuredContent"] == {"kind": value}
    assert client.call_tool("choose", {"kind": "none"})["isError"]
    assert client.call_tool("show")["structuredContent"] == {"kind": values[0]}


class Broken(serializers.Serializer[Any]):
    """A serializer that cannot be described."""

    @property
    def fields(self) -> Any:
        raise RuntimeError("not without a request")


@pytest.mark.parametrize("output_schemas", [True, False])
def test_undescribable_answer_does_not_hide_the_tool(
    settings: Any, user: Any, output_schemas: bool
) -> None:
    class View(APIView):
        """Show it."""

        @extend_schema(responses=Broken)
        @mcp_tool(name="show")
        def get(self, request: Any) -> Response:
            return Response({"a": 1})

    offer(settings, View, output_schemas=output_schemas)
    assert messages("mcp_bridge.E070") == []
    assert CheckedClient(user=user).call_tool("show")["structuredContent"] == {"a": 1}
    assert len(messages("mcp_bridge.W037")) == output_schemas


class Flat(serializers.Serializer[Any]):
    """A serializer whose answer has another member."""

    name = serializers.CharField()

    def to_representation(self, instance: Any) -> Any:
        return {"label": [instance["name"]]}


class FlatList(serializers.ListSerializer[Any]):
    def to_representation(self, data: Any) -> Any:
        return {"items": super().to_representation(data), "count": len(data)}


class Counted(serializers.Serializer[Any]):
    class Meta:
        list_serializer_class = FlatList

    name = serializers.CharField()


class Holder(serializers.Serializer[Any]):
    flat = Flat()
    flats = Flat(many=True)
    counted = Counted(many=True)


@extend_schema_field({"type": "object"})
class Declared(Flat):
    pass


class DeclaredHolder(serializers.Serializer[Any]):
    flat = Declared()


FLAT = {"name": "x"}
OPEN = {"additionalProperties": {}}


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (Flat, FLAT, None),
        (Flat(many=True), [FLAT], {"type": "array", "items": OPEN}),
        (Counted(many=True), [FLAT], None),
        (Holder, {"flat": FLAT, "flats": [FLAT], "counted": [FLAT]}, OPEN),
        (DeclaredHolder, {"flat": FLAT}, {"type": "object"}),
    ],
    ids=["one", "many", "list", "nested", "declared"],
)
def test_answer_fits_its_output_schema(
    settings: Any, user: Any, kind: Any, value: Any, told: Any
) -> None:
    many = isinstance(value, list)
    serializer = (type(kind.child) if many else kind)(value, many=many)
    made = serializer.to_representation(value)

    class View(APIView):
        """Show it."""

        @extend_schema(responses=kind)
        @mcp_tool(name="show")
        def get(self, request: Any) -> Response:
            return Response(made)

    offer(settings, View, output_schemas=True)
    result = CheckedClient(user=user).call_tool("show")
    schema = served("show").output_schema
    if told is None:
        assert schema is None
    else:
        assert schema is not None
        properties = schema["properties"]
        assert properties["result" if many else "flat"] == told
        assert kind is not Holder or properties["counted"] == OPEN
        Draft202012Validator(schema).validate(result["structuredContent"])
    texts = messages("mcp_bridge.W037")
    assert bool(texts) is (kind is not DeclaredHolder)
    assert all("to_representation()" in text for text in texts)


class Storage(Flat):
    """A serializer with declared fields and a custom representation."""

    aws_secret_key = serializers.CharField()


class Storages(serializers.Serializer[Any]):
    storages = Storage(many=True)


class Key(serializers.Serializer[Any]):
    api_key = serializers.CharField()


class Wide(serializers.Serializer[Any]):
    """Too large for an output schema."""

    key = Key()
    for number in range(1200):
        locals()[f"field_{number}"] = serializers.CharField()


class Plain(serializers.Serializer[Any]):
    name = serializers.CharField()
    password = serializers.CharField(write_only=True)


EITHER = PolymorphicProxySerializer("Either", [Plain, Key], None)
DECLARING = {
    "own": Storage,
    "own list": Storage(many=True),
    "nested": Storages,
    "nested list": Storages(many=True),
    "two statuses": {200: Plain, 201: Key},
    "the same twice": {200: Key, 201: Key},
    "beside none": {204: None, 200: Key},
    "default": {"default": Key},
    "either": EITHER,
    "media type": {(200, "application/xml"): Key, (200, "application/json"): Plain},
    "wide": Wide,
}


@pytest.mark.parametrize("kind", DECLARING.values(), ids=DECLARING)
def test_candidate_declaring_a_secret_is_not_served(settings: Any, kind: Any) -> None:
    def view(name: str, answer: Any) -> type[APIView]:
        class View(APIView):
            """Show it."""

            @extend_schema(responses=answer)
            def get(self, request: Any) -> Response:
                return Response({})

        return type(name, (View,), {"__doc__": View.__doc__})

    offer(settings, view("Shelf", kind), view("Plain", Plain), expose="all")
    secret, plain = sorted(registry.discovered.candidates, key=lambda name: "plain" in name)
    for name in (secret, plain):
        set_tool(name, chosen=True)
    assert names() == [plain]
    (message,) = messages("mcp_bridge.W092")
    assert re.search("it returns a secret, '(aws_secret|api)_key': mark it to make it", message)
