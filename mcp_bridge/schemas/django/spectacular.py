"""Read the hints of serializers and fields that a site declares for drf-spectacular."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from django.apps import apps
from pydantic import AfterValidator, WithJsonSchema
from rest_framework import serializers
from rest_framework.settings import api_settings
from rest_framework.views import APIView

from mcp_bridge.schemas.django import hints
from mcp_bridge.schemas.hints import TypeHint, annotate
from mcp_bridge.schemas.openapi import Components, Side
from mcp_bridge.schemas.validation import SchemaValidator

Direction: TypeAlias = Literal["request", "response"]


def override_hint(field: object, direction: Direction) -> TypeHint | None:
    """Return the hint from ``@extend_schema_field`` or an extension, or None."""
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


def override_value(serializer: object, name: str, default: Any) -> Any:
    """Return an argument of a serializer's ``@extend_schema_serializer``, or the default."""
    if not apps.is_installed("drf_spectacular"):
        return default
    from drf_spectacular.drainage import get_override

    return get_override(serializer, name, default)


def represents_itself(field: Any) -> bool:
    """Return whether a field or serializer overrides ``to_representation()``."""
    module: str = type(field).to_representation.__module__
    return module.partition(".")[0] != "rest_framework"


def inferred_hint(field: object, direction: Direction, extension: Any = None) -> TypeHint | None:
    """Return drf-spectacular's hint of a field or serializer extension; None if it is a guess."""
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
            # Private by name, but documented for use by extensions.
            schema = auto_schema._map_serializer_field(field, direction)
    if warnings or not schema:
        return None
    return _hint(as_json(schema), direction, as_json(auto_schema.registry.build({})))


def as_json(described: object) -> Any:
    """Return drf-spectacular's output as JSON: decimals as numbers, lazy texts as strings."""
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


def _hint(schema: dict[str, Any], direction: Direction, components: dict[str, Any]) -> TypeHint:
    """Return the hint of an OpenAPI schema."""
    nullable = schema.pop("nullable", False)
    if isinstance(schema.get("type"), list) and "null" in schema["type"]:
        nullable = True
        schema["type"] = [each for each in schema["type"] if each != "null"]
    # The property that contains it has its own.
    for key in ("title", "default"):
        schema.pop(key, None)
    side = Side.INPUT if direction == "request" else Side.OUTPUT
    document = Components({"components": components})
    name = "schema by drf-spectacular"
    whole = document.within_bounds(document.convert(schema, side), side, name)
    if "$defs" in whole:
        raise TypeError("drf-spectacular describes it with a recursive schema")
    validator = SchemaValidator(whole, name)

    def conform(value: object) -> object:
        if found := validator.errors(value):
            raise hints.validation_error("schema", found)
        return value

    hint = annotate(Any, AfterValidator(conform), WithJsonSchema({**whole}))
    # For requests, the serializer decides whether null is allowed.
    return hint | None if nullable and direction == "response" else hint
