"""
What a site has told drf-spectacular of its serializers, as hints; nothing where that is not there.

This uses its AutoSchema, without any settings, and what its decorators and extensions have noted.
Its OpenAPI, 3.0 or 3.1, is made JSON Schema 2020-12, which is then enforced.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal

from django.apps import apps
from pydantic import ValidationError, WithJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError
from rest_framework import serializers
from rest_framework.settings import api_settings
from rest_framework.views import APIView

from mcp_bridge.schemas.django.hints import After
from mcp_bridge.schemas.generator import simplify
from mcp_bridge.schemas.validation.validator import SchemaValidator, UncheckableError

Direction = Literal["request", "response"]

_COMPONENTS: Final = "#/components/schemas/"
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs"})
_LISTED: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE: Final = frozenset({"items", "additionalProperties", "propertyNames", "contains", "not"})
# What JSON Schema does not know, and what has become of it elsewhere in the schema.
_LEFT_OUT: Final = frozenset(
    {"nullable", "readOnly", "writeOnly", "discriminator", "xml", "externalDocs", "example"}
)
# What a property says itself.
_OUTER: Final = ("title", "default")


def told(field: Any, direction: Direction) -> Any | None:
    """
    The hint of a field or a serializer of which the site says itself what it is.

    It says so by ``@extend_schema_field``, or by an extension for fields or serializers.
    """
    if not apps.is_installed("drf_spectacular"):
        return None
    from drf_spectacular import extensions
    from drf_spectacular.drainage import has_override

    method = None
    if isinstance(field, serializers.SerializerMethodField):
        method = getattr(field.parent, field.method_name or "", None)
    with _quiet():
        kind: Any = extensions.OpenApiSerializerFieldExtension
        if isinstance(field, serializers.Serializer):
            kind = extensions.OpenApiSerializerExtension
        said = has_override(field, "field") or has_override(method, "field")
        said = said or kind.get_match(field) is not None
    return mapped(field, direction) if said else None


def note(serializer: Any, name: str, default: Any = None) -> Any:
    """What ``@extend_schema_serializer`` says under a name: of the description, or of fields."""
    if not apps.is_installed("drf_spectacular"):
        return default
    from drf_spectacular.drainage import get_override

    return get_override(serializer, name, default)


def mapped(field: Any, direction: Direction) -> Any | None:
    """The hint of what drf-spectacular makes of a field; None where it would only guess."""
    if not apps.is_installed("drf_spectacular"):
        return None
    from drf_spectacular.drainage import has_override

    auto_schema = _auto_schema()
    with _quiet() as complaints:
        if isinstance(field, serializers.Serializer) and not has_override(field, "field"):
            schema = auto_schema._map_serializer(field, direction)
        else:
            schema = auto_schema._map_serializer_field(field, direction)
    if complaints or not schema:
        return None
    components = {
        component.name: component.schema for component in auto_schema.registry._components.values()
    }
    return _hint(_plain(schema), _plain(components), direction)


def _auto_schema() -> Any:
    from drf_spectacular.openapi import AutoSchema
    from drf_spectacular.plumbing import ComponentRegistry

    given: Any = api_settings.DEFAULT_SCHEMA_CLASS
    kind: Any = given if issubclass(given, AutoSchema) else AutoSchema
    view: Any = type("View", (APIView,), {"schema": kind()})()
    view.request = None
    auto_schema = view.schema
    auto_schema.registry = ComponentRegistry()
    auto_schema.path, auto_schema.method = "/", "POST"
    return auto_schema


@contextmanager
def _quiet() -> Iterator[list[str]]:
    """Collect what drf-spectacular complains of, which it then has neither printed nor counted."""
    from drf_spectacular.drainage import GENERATOR_STATS

    caches = (GENERATOR_STATS._warn_cache, GENERATOR_STATS._error_cache)
    before = [dict(cache) for cache in caches]
    complaints: list[str] = []
    with GENERATOR_STATS.silence():
        try:
            yield complaints
        finally:
            for cache, kept in zip(caches, before, strict=True):
                complaints += [each for each in cache if cache[each] != kept.get(each)]
                cache.clear()
                cache.update(kept)


def _plain(value: Any) -> Any:
    """The same as plain JSON: lazy translations as texts, decimals as numbers."""
    made = {decimal.Decimal: float}
    return json.loads(json.dumps(value, default=lambda each: made.get(type(each), str)(each)))


def _hint(schema: Any, components: Mapping[str, Any], direction: Direction) -> Any:
    outer = {key: value for key, value in schema.items() if key not in _OUTER}
    nullable = outer.pop("nullable", False)
    if isinstance(outer.get("type"), list) and "null" in outer["type"]:
        nullable = True
        kinds = [each for each in outer["type"] if each != "null"]
        outer["type"] = kinds[0] if len(kinds) == 1 else kinds
    defined = {name: _converted(each, direction) for name, each in components.items()}
    whole = simplify({**_converted(outer, direction), "$defs": defined})
    if "$defs" in whole:
        raise TypeError("drf-spectacular describes it by a schema that contains itself")
    hint: Any = Annotated[Any, After(Conforming(whole).checked), WithJsonSchema(whole)]
    # Whether null may be sent is for the serializer to say.
    return hint | None if nullable and direction == "response" else hint


class Conforming:
    """What has a value conform to a schema, with all that breaks it as argument errors."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.handmade = SchemaValidator(schema, "schema by drf-spectacular")

    def checked(self, value: Any) -> Any:
        try:
            errors = self.handmade.errors(value)
        except UncheckableError as why:
            raise ValueError(str(why)) from why
        found: list[InitErrorDetails] = []
        for each in errors:
            kind: Any = each.keyword
            told = PydanticCustomError(kind, "{text}", {"text": each.message})
            found.append(InitErrorDetails(type=told, loc=each.path, input=None))
        if found:
            raise ValidationError.from_exception_data("schema", found)
        return value


def _converted(schema: Any, direction: Direction) -> Any:
    """OpenAPI's schema, of whichever version, as JSON Schema 2020-12."""
    if not isinstance(schema, Mapping):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED:
            named = _sided(value, direction) if key == "properties" else value
            result[key] = {name: _converted(each, direction) for name, each in named.items()}
        elif key in _LISTED:
            result[key] = [_converted(each, direction) for each in value]
        elif key in _SINGLE:
            result[key] = _converted(value, direction)
        elif key == "$ref":
            result[key] = value.replace(_COMPONENTS, "#/$defs/")
        elif key not in _LEFT_OUT:
            result[key] = value
    if "required" in result:
        named = result.get("properties", {})
        dropped = schema.get("properties", {}).keys() - named.keys()
        result["required"] = [each for each in result["required"] if each not in dropped]
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(result.get(exclusive), bool) and result.pop(exclusive):
            result[exclusive] = result.pop(bound)
    if list(result.get("allOf", ())) and len(result["allOf"]) == 1:
        # What stands beside a $ref had to be kept apart from it before OpenAPI 3.1.
        result = {**result.pop("allOf")[0], **result}
    return _with_null(result) if schema.get("nullable") else result


def _sided(properties: Mapping[str, Any], direction: Direction) -> dict[str, Any]:
    other = "readOnly" if direction == "request" else "writeOnly"
    return {name: each for name, each in properties.items() if not each.get(other)}


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(schema.get("type"), str):
        return {"anyOf": [schema, {"type": "null"}]} if schema else schema
    kinds = {"type": [schema["type"], "null"]}
    return {**schema, **kinds, **({"enum": [*schema["enum"], None]} if "enum" in schema else {})}
