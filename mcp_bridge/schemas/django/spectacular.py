"""
The hints of serializers and fields that a site describes to drf-spectacular.

The OpenAPI schema, 3.0 or 3.1, of the site's AutoSchema is made JSON Schema 2020-12, and enforced.
Where drf-spectacular is not in INSTALLED_APPS, there are no such hints.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from django.apps import apps
from pydantic import AfterValidator, WithJsonSchema
from rest_framework import serializers
from rest_framework.settings import api_settings
from rest_framework.views import APIView

from mcp_bridge.schemas.django import hints
from mcp_bridge.schemas.generator import simplify
from mcp_bridge.schemas.hints import TypeHint, annotate
from mcp_bridge.schemas.validation.validator import SchemaValidator
from mcp_bridge.schemas.walk import SchemaDocument

Direction: TypeAlias = Literal["request", "response"]
T = TypeVar("T")

_COMPONENTS: Final = "#/components/schemas/"
# Keywords of OpenAPI that JSON Schema does not have, or that are expressed by others.
_LEFT_OUT: Final = frozenset(
    {"nullable", "readOnly", "writeOnly", "discriminator", "xml", "externalDocs", "example"}
)


def override_hint(field: object, direction: Direction) -> TypeHint | None:
    """Return the hint that the site gives by ``@extend_schema_field`` or an extension, or None."""
    if not apps.is_installed("drf_spectacular"):
        return None
    from drf_spectacular import extensions
    from drf_spectacular.drainage import has_override

    described = has_override(field, "field")
    whole = isinstance(field, serializers.Serializer) and not described
    kind = "OpenApiSerializerExtension" if whole else "OpenApiSerializerFieldExtension"
    with collected_warnings():
        extension = getattr(extensions, kind).get_match(field)
    if whole:
        return extension and inferred_hint(field, direction, extension)
    if isinstance(field, serializers.SerializerMethodField):
        method = getattr(field.parent, field.method_name or "", None)
        described = described or has_override(method, "field")
    return inferred_hint(field, direction) if described or extension else None


def override_value(serializer: object, name: str, default: T) -> T:
    """Return an argument of a serializer's ``@extend_schema_serializer``, or the default."""
    if not apps.is_installed("drf_spectacular"):
        return default
    from drf_spectacular.drainage import get_override

    value: T = get_override(serializer, name, default)
    return value


def represents_itself(field: Any) -> bool:
    """Return whether a field or a serializer has its own ``to_representation()``."""
    module: str = type(field).to_representation.__module__
    return module.partition(".")[0] != "rest_framework"


def inferred_hint(field: object, direction: Direction, extension: Any = None) -> TypeHint | None:
    """Return drf-spectacular's hint of a field or a serializer's extension; None for a guess."""
    if not apps.is_installed("drf_spectacular"):
        return None
    from drf_spectacular.openapi import AutoSchema
    from drf_spectacular.plumbing import ComponentRegistry

    given: Any = api_settings.DEFAULT_SCHEMA_CLASS
    auto_schema: Any = (given if issubclass(given, AutoSchema) else AutoSchema)()
    auto_schema.view = APIView(request=None)
    auto_schema.registry = ComponentRegistry()
    auto_schema.path, auto_schema.method = "/", "POST"
    with collected_warnings() as warnings:
        if extension:
            schema = extension.map_serializer(auto_schema, direction)
        else:
            # Its name is private, though the documentation of extensions has them call it.
            schema = auto_schema._map_serializer_field(field, direction)
    if warnings or not schema:
        return None
    whole = {**schema, "$defs": auto_schema.registry.build({}).get("schemas", {})}
    return _hint(as_json(whole), direction)


def as_json(described: object) -> Any:
    """Return what drf-spectacular made as JSON has it: decimals as numbers, lazy texts as texts."""
    text = json.dumps(
        described, default=lambda each: float(each) if isinstance(each, Decimal) else str(each)
    )
    return json.loads(text)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect drf-spectacular's warnings and errors, which are then neither printed nor counted."""
    from drf_spectacular.drainage import GENERATOR_STATS

    collected: list[str] = []
    vars(GENERATOR_STATS)["emit"] = lambda msg, severity: collected.append(msg)
    try:
        yield collected
    finally:
        vars(GENERATOR_STATS).pop("emit", None)


def _hint(schema: dict[str, Any], direction: Direction) -> TypeHint:
    """Return the hint of a schema of OpenAPI, which has its components in ``$defs``."""
    nullable = schema.pop("nullable", False)
    if isinstance(schema.get("type"), list) and "null" in schema["type"]:
        nullable = True
        kinds = [each for each in schema["type"] if each != "null"]
        schema["type"] = kinds[0] if len(kinds) == 1 else kinds
    # The property that holds it has its own.
    for key in ("title", "default"):
        schema.pop(key, None)
    for part in SchemaDocument(schema).subschemas:
        _convert(cast("dict[str, Any]", part), direction)
    whole = simplify(schema)
    if "$defs" in whole:
        raise TypeError("drf-spectacular describes it by a schema that contains itself")
    validator = SchemaValidator(whole, "schema by drf-spectacular")

    def conform(value: object) -> object:
        found = validator.errors(value)
        if found:
            raise hints.validation_error("schema", found)
        return value

    hint = annotate(Any, AfterValidator(conform), WithJsonSchema(whole))
    # Whether null may be sent is decided by the serializer.
    return hint | None if nullable and direction == "response" else hint


def _convert(schema: dict[str, Any], direction: Direction) -> None:
    """Make one schema of OpenAPI one of JSON Schema, without properties of the other direction."""
    while len(schema.get("allOf", ())) == 1:
        # Before OpenAPI 3.1 nothing could stand beside a $ref, which was put into an allOf.
        for key, value in schema.pop("allOf")[0].items():
            schema.setdefault(key, value)
    other = "readOnly" if direction == "request" else "writeOnly"
    properties = schema.get("properties", {})
    dropped = {name for name, each in properties.items() if each.get(other, False)}
    for name in dropped:
        del properties[name]
    if dropped and "required" in schema:
        schema["required"] = [each for each in schema["required"] if each not in dropped]
    if "$ref" in schema:
        schema["$ref"] = schema["$ref"].replace(_COMPONENTS, "#/$defs/")
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        # OpenAPI 3.0 has a boolean there.
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive):
            schema[exclusive] = schema.pop(bound)
    nullable = schema.get("nullable")
    for key in _LEFT_OUT:
        schema.pop(key, None)
    if nullable and schema:
        inner = {key: schema.pop(key) for key in list(schema) if key != "$defs"}
        schema["anyOf"] = [inner, {"type": "null"}]
