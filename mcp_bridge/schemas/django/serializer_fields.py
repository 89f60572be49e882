"""The fields of serializers as hints: what fills one, and what it represents."""

from __future__ import annotations

import datetime
import decimal
import typing
import uuid
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from rest_framework import ISO_8601, serializers
from rest_framework.settings import api_settings

from mcp_bridge.schemas.django.choices import labels
from mcp_bridge.schemas.django.models import key_hint
from mcp_bridge.schemas.django.spectacular import mapped, told

# What makes a hint of a nested serializer.
Shape = Callable[[Any], Any]


def _text(format: str) -> Any:
    return Annotated[str, Field(json_schema_extra={"format": format})]


# The first that matches counts: a subclass stands before its base.
_WRITTEN: Final[Sequence[tuple[Any, Any]]] = (
    (serializers.BooleanField, bool),
    (serializers.IntegerField, int),
    (serializers.FloatField, float),
    (serializers.DecimalField, decimal.Decimal),
    (serializers.DateTimeField, datetime.datetime),
    (serializers.DateField, datetime.date),
    (serializers.TimeField, datetime.time),
    (serializers.DurationField, datetime.timedelta),
    (serializers.UUIDField, uuid.UUID),
    (serializers.EmailField, _text("email")),
    (serializers.URLField, _text("uri")),
    (serializers.CharField, str),
    (serializers.JSONField, Any),
)
_READ: Final[Sequence[tuple[Any, Any]]] = (
    (serializers.BooleanField, bool),
    (serializers.IntegerField, int),
    (serializers.FloatField, float),
    (serializers.DurationField, str),
    (serializers.CharField, str),
    (serializers.StringRelatedField, str),
)
_DATES: Final = (
    (serializers.DateTimeField, "date-time"),
    (serializers.DateField, "date"),
    (serializers.TimeField, "time"),
)
# What lists and dicts hold where nobody says what.
_UNTYPED: Final = type(serializers.ListField().child)


def write_hint(field: Any, shape: Shape) -> Any:
    """The hint of what fills a field; raises TypeError where no JSON value can."""
    known = told(field, "request")
    if known is None:
        known = _nested(field, shape, write_hint)
    if known is not None:
        return known
    hint = _first(_WRITTEN, field)
    if hint is None and not isinstance(field, serializers.FileField):
        hint = mapped(field, "request")
    if hint is None:
        kind = type(field).__name__
        raise TypeError(f"the field {field.field_name!r} is a {kind}: no JSON fills it")
    bounds: dict[str, Any] = {
        "ge": getattr(field, "min_value", None),
        "le": getattr(field, "max_value", None),
    }
    if isinstance(field, serializers.CharField):
        least = None if field.allow_blank else 1
        bounds = {"min_length": field.min_length or least, "max_length": field.max_length}
    given = {key: value for key, value in bounds.items() if value is not None}
    return Annotated[hint, Field(**given)] if given else hint


def read_hint(field: Any, shape: Shape) -> Any:
    """The hint of what a field represents; Any where nobody says."""
    known = told(field, "response")
    if known is None:
        known = _nested(field, shape, read_hint)
    if known is not None:
        return (mapped(field, "response") or Any) if known is Any else known
    if isinstance(field, serializers.SerializerMethodField):
        method = getattr(field.parent, field.method_name or f"get_{field.field_name}")
        return typing.get_type_hints(method).get("return", Any)
    format = next((name for kind, name in _DATES if isinstance(field, kind)), None)
    if format is not None:
        return _date(field, format)
    if isinstance(field, serializers.UUIDField):
        return _text("uuid") if field.uuid_format == "hex_verbose" else Any
    if isinstance(field, serializers.DecimalField):
        as_text = getattr(field, "coerce_to_string", api_settings.COERCE_DECIMAL_TO_STRING)
        return str if as_text else Any
    return _first(_READ, field) or mapped(field, "response") or Any


def description(field: Any) -> str | None:
    """What a field's help text says, and the labels of its choices."""
    texts = [str(field.help_text).rstrip(".") + "."] if field.help_text else []
    choices = (
        getattr(field, "choices", None) if isinstance(field, serializers.ChoiceField) else None
    )
    if choices and any(str(value) != str(label) for value, label in choices.items()):
        texts.append(labels(choices.items()))
    return " ".join(texts) or None


def _first(hints: Sequence[tuple[Any, Any]], field: Any) -> Any:
    return next((hint for kind, hint in hints if isinstance(field, kind)), None)


def _nested(field: Any, shape: Shape, hint_of: Callable[[Any, Shape], Any]) -> Any:
    """The hint of a field that is alike on both sides but for what it holds, or None."""
    if isinstance(field, serializers.ListSerializer | serializers.ListField):
        items = _nullable(field.child, hint_of(field.child, shape))
        least = None if field.allow_empty else 1
        most = getattr(field, "max_length", None)
        return _listed(items, getattr(field, "min_length", None) or least, most)
    if isinstance(field, serializers.Serializer):
        return shape(field)
    if isinstance(field, serializers.DictField):
        return dict[str, _nullable(field.child, hint_of(field.child, shape))]  # type: ignore[misc]
    if isinstance(field, serializers.ChoiceField):
        values = tuple(field.choices)
        hint: Any = Literal[(*values, *([""] if field.allow_blank else []))] if values else Any
        if not isinstance(field, serializers.MultipleChoiceField):
            return hint
        return _listed(hint, None if field.allow_empty else 1, None)
    if isinstance(field, serializers.ManyRelatedField):
        least = None if field.allow_empty else 1
        return _listed(hint_of(field.child_relation, shape), least, None)
    if isinstance(field, serializers.PrimaryKeyRelatedField | serializers.SlugRelatedField):
        return _key(field)
    return Any if isinstance(field, _UNTYPED) else None


def _nullable(field: Any, hint: Any) -> Any:
    return hint | None if field.allow_null else hint


def _listed(items: Any, least: int | None, most: int | None) -> Any:
    hint: Any = list[items]
    bounded = least is not None or most is not None
    return Annotated[hint, Field(min_length=least, max_length=most)] if bounded else hint


def _key(field: Any) -> Any:
    """The hint of what names a related instance; Any where only the database knows."""
    queryset = field.queryset
    if queryset is None:
        return Any
    name = getattr(field, "slug_field", None) or queryset.model._meta.pk.name
    return key_hint(queryset.model._meta.get_field(name)) if "__" not in name else Any


def _date(field: Any, format: str) -> Any:
    """A date as the serializer's format writes it, which need not be the standard one."""
    setting = {"date-time": "DATETIME", "date": "DATE", "time": "TIME"}[format]
    used = getattr(field, "format", getattr(api_settings, f"{setting}_FORMAT"))
    if used is None:
        return Any
    return _text(format) if used.lower() == ISO_8601 else str
