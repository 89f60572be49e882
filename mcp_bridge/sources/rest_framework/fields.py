"""Correct drf-spectacular's descriptions to match how views read fields and parameters."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any, Final

from drf_spectacular.drainage import has_override
from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry
from rest_framework import ISO_8601, serializers
from rest_framework.filters import OrderingFilter
from rest_framework.settings import api_settings
from rest_framework.utils import humanize_datetime

from mcp_bridge.schemas.django.spectacular import represents_itself
from mcp_bridge.schemas.hints import ADAPTERS

_FORMS: Final = ("multipart/form-data", "application/x-www-form-urlencoded")
# A schema for any value; drf-spectacular ignores an empty one.
_OPEN: Final[dict[str, Any]] = {"additionalProperties": {}}
_PLAIN: Final = (str, int, float, Decimal, list, tuple, dict, type(None))
_DATES: Final = (
    (serializers.DateTimeField, "DATETIME_INPUT_FORMATS", humanize_datetime.datetime_formats),
    (serializers.DateField, "DATE_INPUT_FORMATS", humanize_datetime.date_formats),
    (serializers.TimeField, "TIME_INPUT_FORMATS", humanize_datetime.time_formats),
)


class Components(ComponentRegistry):
    """The components of one operation; if two differ but share a name, one is renamed."""

    def __contains__(self, component: Any) -> bool:
        name, number = component.name, 1
        while component.key in self._components:
            one, other = self[component].object, component.object
            if one is other or _identity(one) == _identity(other):
                return True
            number += 1
            component.name = f"{name}{number}"
        return False


def _identity(found: Any) -> Any:
    """Return the identity of a field: its class and constructor arguments."""
    if not isinstance(found, serializers.Field):
        return found
    field: Any = found
    given = {**dict(enumerate(field._args)), **field._kwargs, "validators": None}
    return type(found), [(name, repr(it)) for name, it in given.items() if isinstance(it, _PLAIN)]


class Corrections(AutoSchema):
    """
    A mixin over the view's AutoSchema that describes fields as the view reads them.

    Without responses, their serializers are not described, which saves half of the time. With
    ``as_declared``, each is described by its fields, even if it has its own to_representation().
    ``answer_error`` is the exception raised when describing responses, or None; ``undeclared``
    names the serializers of responses that their fields do not describe. ``is_lost``: an
    ``@extend_schema`` has no effect, since the view has another type of schema.
    """

    with_answers: bool
    as_declared: bool
    is_lost: bool
    answer_error: Exception | None = None
    undeclared: list[str]

    @classmethod
    def of(cls, view: Any, schema: Any, has_output: bool, as_declared: bool) -> Corrections:
        """Set a corrected copy of its schema on a view, and return the copy."""
        made: Any = copy.copy(schema)
        made.__class__ = type(schema.__class__.__name__, (cls, schema.__class__), {})
        made.get_request_serializer = cache(made.get_request_serializer)
        made.with_answers, made.as_declared = has_output or as_declared, as_declared
        made.undeclared = []
        # Through a proxy, as in drf-spectacular: the descriptor would keep the view alive.
        view.schema = weakref.proxy(made)
        return made  # type: ignore[no-any-return]

    def _get_response_bodies(self, *given: Any, **named: Any) -> Any:
        try:
            return super()._get_response_bodies(*given, **named)
        except Exception as error:
            # The tool is served even if its responses cannot be described.
            self.answer_error = error
            return {}

    def _get_response_for_code(self, serializer: Any, *given: Any, **named: Any) -> Any:
        serializer = _instance(serializer)
        if isinstance(serializer, serializers.BaseSerializer) and not self.with_answers:
            serializer = {"type": "object"}
        elif isinstance(serializer, serializers.ListSerializer) and self._hides(serializer):
            serializer = None
        return super()._get_response_for_code(serializer, *given, **named)

    def _map_serializer(self, serializer: Any, direction: Any, *given: Any, **named: Any) -> Any:
        if direction == "response" and self._hides(serializer):
            return dict(_OPEN)
        return super()._map_serializer(serializer, direction, *given, **named)

    def _hides(self, serializer: Any) -> bool:
        """Return whether a serializer overrides to_representation() without a declared schema."""
        found = _instance(serializer)
        is_declared = self.as_declared or OpenApiSerializerExtension.get_match(serializer)
        if is_declared or not represents_itself(found):
            return False
        self.undeclared.append(f"{type(found).__module__}.{type(found).__qualname__}")
        return True

    def _map_serializer_field(self, field: Any, direction: Any, *given: Any, **named: Any) -> Any:
        """Return the schema of a field, or None if it is absent in this direction."""
        is_list = direction == "response" and isinstance(field, serializers.ListSerializer)
        if is_list and not has_override(field, "field") and self._hides(field):
            return dict(_OPEN)
        if isinstance(field, serializers.ChoiceField):
            return self._map_choice(field, direction, *given, **named)
        schema = super()._map_serializer_field(field, direction, *given, **named)
        if schema and direction == "request":
            for kind, setting, told in _DATES:
                if isinstance(field, kind):
                    formats = getattr(field, "input_formats", getattr(api_settings, setting))
                    if [each.lower() for each in formats] != [ISO_8601]:
                        tell_formats(schema, told(formats))
        return schema

    def _map_choice(self, field: Any, direction: Any, *given: Any, **named: Any) -> Any:
        """Return the schema of a field with choices of any types; null is not a choice."""
        values = {str(each): each for each in field.choices if each is not None}
        # drf-spectacular describes only choices of one type, and never null beside others.
        is_mixed = len({isinstance(each, str) for each in values.values()}) > 1
        made = copy.copy(field)
        made.allow_null = False
        made.choices = [
            (text if is_mixed else each, field.choices[each]) for text, each in values.items()
        ]
        schema = super()._map_serializer_field(made, direction, *given, **named)
        whole = schema.get("items", schema) if schema else {}
        if is_mixed and "enum" in whole:
            whole.pop("type", None)
            whole["enum"] = [values.get(each, each) for each in whole["enum"]]
        if schema and (field.allow_null or (None in field.choices and direction == "response")):
            if "type" in schema:
                schema["type"] = [schema["type"], "null"]
            if "enum" in schema:
                schema["enum"].append(None)
        return schema


def _instance(found: Any) -> Any:
    return found() if isinstance(found, type) else found


def tell_formats(schema: dict[str, Any], formats: str) -> None:
    """Describe the formats of a date or time in words instead of with ``format``."""
    if schema.pop("format", None) is not None:
        text = schema.get("description")
        schema["description"] = "\n".join(filter(None, (text, f"Format: {formats}.")))


def tell_json(operation: dict[str, Any], schema: Any) -> None:
    """Mark form members that are JSON text, from JSONFields."""
    content = operation.get("requestBody", {}).get("content", {})
    forms = [content[each] for each in _FORMS if each in content]
    for name in _json_members(_instance(schema.get_request_serializer())) if forms else ():
        for form in forms:
            form.setdefault("encoding", {}).setdefault(name, {"contentType": "application/json"})


def _json_members(serializer: Any, before: str = "", seen: tuple[type, ...] = ()) -> Iterator[str]:
    serializer = getattr(serializer, "child", serializer)
    if not isinstance(serializer, serializers.Serializer) or type(serializer) in seen:
        return
    for name, each in serializer.fields.items():
        if isinstance(each, serializers.JSONField):
            yield before + name
        else:
            yield from _json_members(each, f"{before}{name}.", (*seen, type(serializer)))


def add_filters(operation: dict[str, Any], view: Any) -> None:
    """Describe a list's orderings, the filters of django-filter, and parameters from adapters."""
    parameters = operation.setdefault("parameters", [])
    described = {each["name"]: each for each in parameters}
    for kind in getattr(view, "filter_backends", ()):
        backend: Any = kind() if isinstance(kind, type) else None
        if isinstance(backend, OrderingFilter) and backend.ordering_param in described:
            if fields := _orderings(backend, view):
                both = [name for field in fields for name in (field, f"-{field}")]
                told = described[backend.ordering_param]
                told["schema"] = {"type": "string", "enum": both}
                told["description"] = "The field to order by; the prefix '-' reverses the order."
        elif hasattr(backend, "get_filterset_class"):
            filters = backend.get_filterset_class(view)
            for name, each in getattr(filters, "base_filters", {}).items():
                if name in described:
                    _add_filter(parameters, described[name], filters, each)
    for adapter in ADAPTERS:
        added = adapter.query_parameters(view)
        parameters += [each for each in added if each["name"] not in described]


def _orderings(backend: Any, view: Any) -> list[str]:
    try:
        is_any = getattr(view, "ordering_fields", backend.ordering_fields) in (None, "__all__")
        queryset = view.get_queryset() if is_any else getattr(view, "queryset", None)
        context = {"request": view.request}
        return [name for name, _ in backend.get_valid_fields(queryset, view, context)]
    except Exception:
        # The view's code may need a real request.
        return []


def _add_filter(parameters: list[Any], told: dict[str, Any], filters: Any, field: Any) -> None:
    if formats := field.extra.get("input_formats"):
        tell_formats(told["schema"], humanize_datetime.humanize_strptime(", ".join(formats)))
    if hasattr(field, "get_lookup_choices"):
        # A LookupChoiceFilter gets its model when its filter set is created.
        field = copy.copy(field)
        field.model = filters._meta.model
        schema = {"type": "string", "enum": [each for each, _ in field.get_lookup_choices()]}
        name, about = told["name"], f"How {told['name']} is compared; required with it."
        added = {"name": f"{name}_lookup", "in": "query", "description": about, "schema": schema}
        parameters.insert(parameters.index(told) + 1, added)
