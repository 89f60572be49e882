"""
Serializers of Django REST framework as parameters and results.

What may be written is the shape of a parameter, and the procedure receives the valid serializer;
what may be read is the shape of a result, which is whatever the serializer represents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NotRequired, get_args, get_origin

from pydantic import BaseModel, Field, PlainSerializer, ValidationError, create_model
from pydantic_core import (
    InitErrorDetails,
    PydanticCustomError,
    PydanticSerializationUnexpectedValue,
)
from rest_framework import serializers
from rest_framework.settings import api_settings
from typing_extensions import TypedDict

from mcp_bridge.schemas.adapters import Adapter
from mcp_bridge.schemas.django.hints import SHAPE, After
from mcp_bridge.schemas.django.serializer_fields import description, read_hint, write_hint
from mcp_bridge.schemas.django.spectacular import note, told


class SerializerAdapter(Adapter):
    """Subclasses of Serializer, and lists of one."""

    def parameter(self, hint: Any, metadata: tuple[Any, ...]) -> Any | None:
        kind, many = _serializer(hint)
        if kind is None:
            return None
        shape: Any = writable(kind())
        receive = Receiver(kind, many)
        return Annotated[(list[shape] if many else shape, *metadata, After(receive.bound))]

    def result(self, hint: Any, metadata: tuple[Any, ...]) -> Any | None:
        kind, many = _serializer(hint)
        if kind is None:
            return None
        shape: Any = readable(kind())

        def represented(value: Any) -> Any:
            if value is None:
                # A serializer of nothing would represent an empty form; None has its own branch.
                raise PydanticSerializationUnexpectedValue("there is nothing to represent")
            ready = isinstance(value, serializers.BaseSerializer)
            return (value if ready else kind(value, many=many)).data

        returned = list[shape] if many else shape
        return Annotated[(Any, PlainSerializer(represented, return_type=returned), *metadata)]


class Receiver:
    """From checked values to the valid serializer, with all that it refuses as argument errors."""

    def __init__(self, kind: type[serializers.Serializer[Any]], many: bool) -> None:
        self.kind = kind
        self.many = many

    def bound(self, values: Any) -> serializers.BaseSerializer[Any]:
        serializer = self.kind(data=_sent(values), many=self.many)
        if not serializer.is_valid():
            errors = list(_refused(serializer.errors, ()))
            raise ValidationError.from_exception_data(self.kind.__name__, errors)
        return serializer


def _serializer(hint: Any) -> tuple[type[serializers.Serializer[Any]] | None, bool]:
    many = get_origin(hint) is list
    kind = get_args(hint)[0] if many else hint
    is_one = isinstance(kind, type) and issubclass(kind, serializers.Serializer)
    return (kind if is_one else None), many


def writable(serializer: serializers.Serializer[Any]) -> Any:
    """What may be sent to a serializer, as a pydantic model; or what drf-spectacular was told."""
    whole = told(serializer, "request")
    if whole is not None:
        return whole
    declared: dict[str, Any] = {}
    for name, field in _shown(serializer):
        if field.read_only or isinstance(field, serializers.HiddenField):
            continue
        hint = write_hint(field, writable)
        options: dict[str, Any] = {"alias": name, **_notes(name, field)}
        if not field.required:
            options |= _default(field)
        # Fields have names of their own, since a serializer's may be what no pydantic field may.
        declared[f"f{len(declared)}"] = (
            hint | None if field.allow_null else hint,
            Field(**options),
        )
    return create_model(
        type(serializer).__name__, __config__=SHAPE, __doc__=_text(serializer), **declared
    )


def readable(serializer: serializers.Serializer[Any]) -> Any:
    """The same of what it represents, as a TypedDict: pydantic writes its dicts as they are."""
    whole = told(serializer, "response")
    if whole is not None:
        return whole
    declared: dict[str, Any] = {}
    for name, field in _shown(serializer):
        if field.write_only:
            continue
        hint = read_hint(field, readable)
        if field.allow_null or (field.read_only and not _is_never_null(field)):
            hint = hint | None
        hint = Annotated[hint, Field(**_notes(name, field))]
        declared[name] = hint if field.required or field.read_only else NotRequired[hint]
    make: Any = TypedDict
    shape = make(type(serializer).__name__, declared)
    shape.__pydantic_config__ = SHAPE
    shape.__doc__ = _text(serializer)
    return shape


def _shown(serializer: serializers.Serializer[Any]) -> Iterator[tuple[str, Any]]:
    left_out = note(serializer, "exclude_fields", ())
    return ((name, each) for name, each in serializer.fields.items() if name not in left_out)


def _notes(name: str, field: Any) -> dict[str, Any]:
    deprecated = name in note(field.parent, "deprecate_fields", ())
    extra = {"json_schema_extra": {"deprecated": True}} if deprecated else {}
    return {"description": description(field), **extra}


def _text(serializer: serializers.Serializer[Any]) -> str | None:
    text = note(serializer, "description", type(serializer).__dict__.get("__doc__"))
    return None if text is None else str(text)


def _nothing() -> None:
    """The default of what is left out, which a schema shows as no default at all."""


def _default(field: serializers.Field[Any, Any, Any, Any]) -> dict[str, Any]:
    simple = isinstance(field.default, str | int | float | bool)
    return {"default": field.default} if simple else {"default_factory": _nothing}


def _is_never_null(field: serializers.Field[Any, Any, Any, Any]) -> bool:
    """Whether a field that cannot be written stands for a column that is never null."""
    model = getattr(getattr(field.parent, "Meta", None), "model", None)
    columns = {each.name: each for each in model._meta.fields} if model is not None else {}
    return field.source in columns and not columns[field.source].null


def _sent(value: Any) -> Any:
    """The values that were sent, as a serializer takes them."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        return {fields[own].alias: _sent(getattr(value, own)) for own in value.model_fields_set}
    if isinstance(value, list):
        return [_sent(each) for each in value]
    if isinstance(value, dict):
        return {key: _sent(each) for key, each in value.items()}
    return value


def _refused(errors: Any, place: tuple[Any, ...]) -> Iterator[InitErrorDetails]:
    if isinstance(errors, Mapping):
        for key, each in errors.items():
            whole = key == api_settings.NON_FIELD_ERRORS_KEY
            yield from _refused(each, place if whole else (*place, key))
    elif isinstance(errors, list):
        for index, each in enumerate(errors):
            inner = isinstance(each, Mapping | list)
            yield from _refused(each, (*place, index) if inner else place)
    else:
        kind: Any = getattr(errors, "code", None) or "invalid"
        told = PydanticCustomError(kind, "{text}", {"text": str(errors)})
        yield InitErrorDetails(type=told, loc=place, input=None)
