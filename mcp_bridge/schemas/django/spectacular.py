"""
The hints of serializers and fields that a site describes to drf-spectacular.

This uses the site's AutoSchema, or drf-spectacular's own, with what decorators and extensions say.
The OpenAPI schema, 3.0 or 3.1, is made JSON Schema 2020-12, which is then enforced. Where
drf-spectacular is not in INSTALLED_APPS, there are no such hints.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias, TypeVar

from django.apps import apps
from pydantic import AfterValidator, ValidationError, WithJsonSchema
from rest_framework import serializers
from rest_framework.settings import api_settings
from rest_framework.views import APIView

from mcp_bridge.protocol import JSONSchema
from mcp_bridge.schemas.django import hints
from mcp_bridge.schemas.generator import simplify
from mcp_bridge.schemas.hints import annotate
from mcp_bridge.schemas.validation.keywords import UncheckableError
from mcp_bridge.schemas.validation.validator import SchemaValidator

Direction: TypeAlias = Literal["request", "response"]
T = TypeVar("T")

_COMPONENTS: Final = "#/components/schemas/"
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs"})
_LISTED: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE: Final = frozenset({"items", "additionalProperties", "propertyNames", "contains", "not"})
# Keywords of OpenAPI that JSON Schema does not have, or that are expressed by others.
_LEFT_OUT: Final = frozenset(
    {"nullable", "readOnly", "writeOnly", "discriminator", "xml", "externalDocs", "example"}
)


def override_hint(field: object, direction: Direction) -> object:
    """
    Return the hint of a field or serializer that the site describes itself, or None.

    It does so by ``@extend_schema_field``, or by an extension for serializers or their fields.
    """
    if not apps.is_installed("drf_spectacular"):
        return None
    from drf_spectacular import extensions
    from drf_spectacular.drainage import has_override

    if isinstance(field, serializers.Serializer) and not has_override(field, "field"):
        with _collected_warnings():
            extension = extensions.OpenApiSerializerExtension.get_match(field)
        return extension and _mapped(extension.map_serializer, direction)
    method = None
    if isinstance(field, serializers.SerializerMethodField):
        method = getattr(field.parent, field.method_name or "", None)
    with _collected_warnings():
        matched = extensions.OpenApiSerializerFieldExtension.get_match(field)
    described = matched or has_override(field, "field") or has_override(method, "field")
    return inferred_hint(field, direction) if described else None


def override_value(serializer: object, name: str, default: T) -> T:
    """Return an argument of a serializer's ``@extend_schema_serializer``, or the default."""
    if not apps.is_installed("drf_spectacular"):
        return default
    from drf_spectacular.drainage import get_override

    value: T = get_override(serializer, name, default)
    return value


def inferred_hint(field: object, direction: Direction) -> object:
    """Return the hint of drf-spectacular's schema for a field; None where it would only guess."""
    if not apps.is_installed("drf_spectacular"):
        return None
    # Its name is private, though the documentation of extensions has them call it.
    return _mapped(lambda schema, side: schema._map_serializer_field(field, side), direction)


def _mapped(mapping: Callable[[Any, Direction], JSONSchema | None], direction: Direction) -> object:
    """Return the hint of the schema that a method makes with an AutoSchema, or None."""
    from drf_spectacular.openapi import AutoSchema
    from drf_spectacular.plumbing import ComponentRegistry

    given: Any = api_settings.DEFAULT_SCHEMA_CLASS
    auto_schema: Any = (given if issubclass(given, AutoSchema) else AutoSchema)()
    auto_schema.view = APIView(request=None)
    auto_schema.registry = ComponentRegistry()
    auto_schema.path, auto_schema.method = "/", "POST"
    with _collected_warnings() as warnings:
        schema = mapping(auto_schema, direction)
    if warnings or not schema:
        return None
    whole = {**schema, "$defs": auto_schema.registry.build({}).get("schemas", {})}
    # As JSON has it: decimals as numbers, and texts that are translated when they are read.
    text = json.dumps(
        whole, default=lambda each: float(each) if isinstance(each, Decimal) else str(each)
    )
    return _hint(json.loads(text), direction)


@contextmanager
def _collected_warnings() -> Iterator[list[str]]:
    """Collect drf-spectacular's warnings and errors, which are then neither printed nor counted."""
    from drf_spectacular.drainage import GENERATOR_STATS

    collected: list[str] = []
    vars(GENERATOR_STATS)["emit"] = lambda msg, severity: collected.append(msg)
    try:
        yield collected
    finally:
        vars(GENERATOR_STATS).pop("emit", None)


def _hint(schema: dict[str, Any], direction: Direction) -> object:
    """Return the hint of a schema of OpenAPI, which has its components in ``$defs``."""
    nullable = schema.pop("nullable", False)
    if isinstance(schema.get("type"), list) and "null" in schema["type"]:
        nullable = True
        kinds = [each for each in schema["type"] if each != "null"]
        schema["type"] = kinds[0] if len(kinds) == 1 else kinds
    # The property that holds it has its own.
    for key in ("title", "default"):
        schema.pop(key, None)
    whole = simplify(_json_schema(schema, direction))
    if "$defs" in whole:
        raise TypeError("drf-spectacular describes it by a schema that contains itself")
    validator = SchemaValidator(whole, "schema by drf-spectacular")

    def conform(value: object) -> object:
        try:
            found = validator.errors(value)
        except UncheckableError as exception:
            raise ValueError(str(exception)) from exception
        if found:
            errors = [hints.argument_error(each.keyword, each.message, each.path) for each in found]
            raise ValidationError.from_exception_data("schema", errors)
        return value

    hint = annotate(Any, AfterValidator(conform), WithJsonSchema(whole))
    # Whether null may be sent is decided by the serializer.
    return hints.or_none(hint) if nullable and direction == "response" else hint


def _json_schema(schema: JSONSchema, direction: Direction) -> dict[str, Any]:
    """Return a schema of OpenAPI as JSON Schema, without properties of the other direction."""

    def converted(each: Any) -> object:
        return _json_schema(each, direction) if isinstance(each, Mapping) else each

    other = "readOnly" if direction == "request" else "writeOnly"
    dropped = {
        name for name, each in schema.get("properties", {}).items() if each.get(other, False)
    }
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED:
            kept = value.keys() - dropped if key == "properties" else value.keys()
            result[key] = {name: converted(each) for name, each in value.items() if name in kept}
        elif key in _LISTED:
            result[key] = [converted(each) for each in value]
        elif key in _SINGLE:
            result[key] = converted(value)
        elif key == "$ref":
            result[key] = value.replace(_COMPONENTS, "#/$defs/")
        elif key == "required":
            result[key] = [each for each in value if each not in dropped]
        elif key not in _LEFT_OUT:
            result[key] = value
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        # OpenAPI 3.0 has a boolean there.
        if isinstance(result.get(exclusive), bool) and result.pop(exclusive):
            result[exclusive] = result.pop(bound)
    if len(result.get("allOf", ())) == 1:
        # Before OpenAPI 3.1 nothing could stand beside a $ref, which was put into an allOf.
        result = {**result.pop("allOf")[0], **result}
    if not schema.get("nullable"):
        return result
    if not isinstance(result.get("type"), str):
        return {"anyOf": [result, {"type": "null"}]} if result else result
    result["type"] = [result["type"], "null"]
    if "enum" in result:
        result["enum"] = [*result["enum"], None]
    return result
