"""
Support serializers of Django REST framework as parameters and results.

Django REST framework runs a query for each item of a list of related fields or of unique values. So
such a list has at most MOST_LOOKED_UP items, as the schema shows, unless its author sets another
bound, and all such lists in one argument together have no more.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NotRequired, TypeAlias, get_args, get_origin

from django.conf import settings
from pydantic import AfterValidator, Field, PlainSerializer
from pydantic_core import PydanticSerializationUnexpectedValue
from rest_framework import ISO_8601, serializers
from rest_framework.settings import api_settings
from typing_extensions import TypedDict

from mcp_bridge.schemas.django import hints, spectacular
from mcp_bridge.schemas.django.models import key_hint
from mcp_bridge.schemas.hints import Side, TypeHint, annotate, note

_Kind: TypeAlias = "type[serializers.Serializer[Any]]"

_WRITTEN: Final = {**hints.by_class(serializers), serializers.URLField: hints.formatted("uri")}
_READ: Final[Mapping[type, type]] = {
    serializers.BooleanField: bool,
    serializers.CharField: str,
    serializers.DurationField: str,
    serializers.FloatField: float,
    serializers.IntegerField: int,
    serializers.StringRelatedField: str,
}
# The format in JSON Schema, and the setting for the format that Django REST framework writes.
_DATES: Final[Mapping[type, tuple[str, str]]] = {
    serializers.DateField: ("date", "DATE_FORMAT"),
    serializers.DateTimeField: ("date-time", "DATETIME_FORMAT"),
    # The format "time" requires an offset.
    serializers.TimeField: ("", "TIME_FORMAT"),
}
# The class of the items of lists and dicts without a child.
_UNTYPED: Final = type(serializers.ListField().child)


def adapted(hint: object, metadata: tuple[object, ...], side: Side) -> object:
    """Return the hint of a Serializer, or a list of one, on a side; None for other hints."""
    many = get_origin(hint) is list
    kind = get_args(hint)[0] if many else hint
    if not (isinstance(kind, type) and issubclass(kind, serializers.Serializer)):
        return None
    return (_parameter if side == "parameter" else _result)(kind, many, metadata)


def _parameter(kind: _Kind, many: bool, metadata: tuple[object, ...]) -> TypeHint:
    shape: Any = kind(many=many)
    if many:
        # The bound of the list in the hint.
        parts = [part for it in metadata for part in getattr(it, "metadata", [it])]
        bounds = (getattr(part, "max_length", None) for part in parts)
        shape.max_length = next(filter(None, bounds), shape.max_length)
    has_lookups = _has_lookups(shape)

    def validated(values: object) -> serializers.BaseSerializer[Any]:
        data = hints.sent_values(values)
        if has_lookups and (found := _lookups(shape, data)) > hints.MOST_LOOKED_UP:
            text = (
                f"Its lists have {found:,} items in total that are looked up one by one, but at "
                f"most {hints.MOST_LOOKED_UP:,} are allowed: send the rest in further calls"
            )
            raise hints.validation_error(kind.__name__, [("too_many", text, ())])
        serializer = kind(data=data, many=many)
        if not serializer.is_valid():
            raise hints.validation_error(kind.__name__, _errors(serializer.errors, (), serializer))
        return serializer

    return annotate(_hint(shape, "request"), *metadata, AfterValidator(validated))


def _result(kind: _Kind, many: bool, metadata: tuple[object, ...]) -> TypeHint:
    def represented(value: object) -> object:
        if value is None:
            # A serializer of None would represent an empty form; the schema has a null branch.
            raise PydanticSerializationUnexpectedValue("there is nothing to represent")
        if not isinstance(value, serializers.BaseSerializer):
            value = kind(value, many=many)
        return value.data

    shape = _hint(kind(many=many), "response")
    return annotate(Any, PlainSerializer(represented, return_type=shape), *metadata)


def _lookups(field: Any, value: object) -> int:
    """Return the number of list items in a value that are looked up with one query each."""
    if (child := _child(field)) is None:
        sent = value if isinstance(value, dict) else {}
        return sum(_lookups(each, sent[name]) for name, each in _members(field) if name in sent)
    items = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(items, list):
        return 0
    within = [_lookups(child, each) for each in items]
    if getattr(field, "max_length", None) is not None:
        # Its author has set a bound: it counts as much as its most expensive item.
        return max(within, default=0)
    return sum(within) + (len(items) if _has_lookups(child, in_lists=False) else 0)


def _has_lookups(field: Any, *, in_lists: bool = True) -> bool:
    """Return whether a value needs queries, optionally including the items of its lists."""
    if field.read_only:
        return False
    # Validators for unique and unique-for-date values have one.
    is_compared = any(hasattr(each, "queryset") for each in field.validators)
    below = [each for _, each in _members(field)]
    if in_lists and (child := _child(field)) is not None:
        below.append(child)
    return (
        is_compared
        or isinstance(field, serializers.RelatedField)
        or any(_has_lookups(each, in_lists=in_lists) for each in below)
    )


def _child(field: Any) -> Any:
    return getattr(field, "child", None) or getattr(field, "child_relation", None)


def _members(field: Any) -> list[tuple[str, Any]]:
    return list(field.fields.items()) if isinstance(field, serializers.Serializer) else []


def _errors(errors: object, path: tuple[str | int, ...], field: Any) -> Iterator[hints.FieldError]:
    """Yield the errors of a serializer or field, which may be nested."""
    if not isinstance(errors, Mapping | list):
        code, text = getattr(errors, "code", None), str(errors)
        is_choice = code == "invalid_choice" and isinstance(field, serializers.ChoiceField)
        if is_choice and _is_decided_later(field):
            text += f" {hints.offered(field.choices.items())}"
        yield code, text, path
        return
    fields: Mapping[Any, Any] = getattr(field, "fields", {})
    for key, each in errors.items() if isinstance(errors, Mapping) else enumerate(errors):
        is_text = isinstance(errors, list) and not isinstance(each, Mapping | list)
        if is_text or key == api_settings.NON_FIELD_ERRORS_KEY:
            yield from _errors(each, path, field)
        else:
            yield from _errors(each, (*path, key), fields.get(key, getattr(field, "child", None)))


def _hint(field: Any, direction: spectacular.Direction) -> TypeHint:
    """Return the hint of the values that a field takes or represents; Any if unknown."""
    described = spectacular.override_hint(field, direction)
    if described is None and direction == "response" and spectacular.represents_itself(field):
        own = type(field)
        note(
            f"the output schema takes any value from {own.__qualname__} ({own.__module__}), "
            "which has its own to_representation()"
        )
        return Any
    hint = described or _structured(field, direction)
    if direction == "response":
        if hint is None:
            return _read_value(field)
        return (spectacular.inferred_hint(field, direction) or Any) if hint is Any else hint
    if hint is not None:
        return hint
    if isinstance(field, serializers.FileField):
        return hints.FILE
    hint = hints.nearest(_WRITTEN, field) or spectacular.inferred_hint(field, direction)
    if hint is None:
        raise TypeError(f"the field {field.field_name!r} ({type(field).__name__}) cannot be JSON")
    blank = not isinstance(field, serializers.CharField) or field.allow_blank
    return hints.with_bounds(hint, field, None if blank else 1)


def _nullable_hint(field: Any, direction: spectacular.Direction) -> TypeHint:
    hint = _hint(field, direction)
    # Django REST framework writes null for any None, except for an item of many=True.
    is_read = direction == "response" and not isinstance(field.parent, serializers.ListSerializer)
    return hint | None if field.allow_null or is_read else hint


def _structured(field: Any, direction: spectacular.Direction) -> TypeHint | None:
    """Return the hint of a field that differs between directions only in its items, or None."""
    least = None if getattr(field, "allow_empty", True) else 1
    child = _child(field)
    is_looked_up = direction == "request" and child is not None and _has_lookups(child)
    most = hints.MOST_LOOKED_UP if is_looked_up and not field.read_only else None
    if isinstance(field, serializers.ListSerializer | serializers.ListField):
        return hints.list_of(_nullable_hint(field.child, direction), field, least, most)
    if isinstance(field, serializers.ManyRelatedField):
        return hints.list_of(_hint(field.child_relation, direction), field, least, most)
    if isinstance(field, serializers.Serializer):
        return _shape(field, direction)
    if isinstance(field, serializers.DictField):
        members = types.GenericAlias(dict, (str, _nullable_hint(field.child, direction)))
        return hints.with_bounds(members, None, None, most)
    if isinstance(field, serializers.ChoiceField):
        values = (*field.choices, *([""] if field.allow_blank else []))
        open_hint = str if direction == "request" else Any
        choice: TypeHint = open_hint if _is_decided_later(field) else Literal[values]
        several = isinstance(field, serializers.MultipleChoiceField)
        return hints.list_of(choice, field, least) if several else choice
    if isinstance(field, serializers.PrimaryKeyRelatedField | serializers.SlugRelatedField):
        name = getattr(field, "slug_field", None)
        # The type of a path through relations is left to the database.
        queryset = getattr(field, "queryset", None)
        return Any if queryset is None or "__" in (name or "") else key_hint(queryset, name)
    return Any if isinstance(field, _UNTYPED) else None


def _is_decided_later(field: Any) -> bool:
    """Return whether a function or the serializer determines the choices at each call."""
    return not hints.is_fixed(field, _declared(field))


def _declared(field: Any) -> Any:
    """Return the field that a serializer's class or its model declares, or None."""
    parent = field.parent
    if isinstance(parent, serializers.ListField | serializers.DictField):
        return getattr(_declared(parent), "child", None)
    declared = getattr(parent, "_declared_fields", {}).get(field.field_name)
    model = getattr(getattr(parent, "Meta", None), "model", None)
    columns = {} if model is None else {each.name: each for each in model._meta.fields}
    return declared or columns.get(field.source)


def _shape(serializer: serializers.Serializer[Any], direction: spectacular.Direction) -> TypeHint:
    """Return a model for input, or a TypedDict for output, which pydantic writes unchanged."""
    kind = type(serializer)
    text = spectacular.override_value(serializer, "description", kind.__dict__.get("__doc__"))
    doc = None if text is None else str(text)
    excluded = spectacular.override_value(serializer, "exclude_fields", ())
    deprecated = spectacular.override_value(serializer, "deprecate_fields", ())
    members: dict[str, Any] = {}
    for name, field in _members(serializer):
        unsent = field.read_only or isinstance(field, serializers.HiddenField)
        if name in excluded or (unsent if direction == "request" else field.write_only):
            continue
        is_choice = isinstance(field, serializers.ChoiceField)
        later = is_choice and _is_decided_later(field)
        choices = field.choices.items() if is_choice and not later else ()
        texts = [field.help_text, hints.LATER if later and direction == "request" else ""]
        options: dict[str, Any] = {"description": hints.describe(texts, choices)}
        if name in deprecated:
            options["json_schema_extra"] = {"deprecated": True}
        if direction == "response":
            hint = annotate(_nullable_hint(field, "response"), Field(**options))
            # A dotted source is omitted if a relation in the path is null.
            is_sent = (field.required or field.read_only) and "." not in (field.source or "")
            members[name] = hint if is_sent else NotRequired[hint]
            continue
        if not field.required:
            # With only a factory, the schema shows no default; its value is never used.
            is_null = field.default is None and field.allow_null
            simple = is_null or isinstance(field.default, str | int | float | bool)
            options |= {"default": field.default} if simple else {"default_factory": lambda: None}
        members[name] = _nullable_hint(field, direction), options
    if direction == "request":
        return hints.model_with(kind.__name__, doc, members)
    make: Any = TypedDict
    shape = make(kind.__name__, members)
    shape.__pydantic_config__ = hints.FIELDS_CONFIG
    shape.__doc__ = doc
    return shape


def _read_value(field: Any) -> TypeHint:
    if isinstance(field, serializers.SerializerMethodField):
        method = getattr(field.parent, field.method_name or f"get_{field.field_name}")
        return typing.get_type_hints(method).get("return", Any)
    date = hints.nearest(_DATES, field)
    if date is not None:
        name, setting = date
        # The format may be custom, and None leaves the value to the renderer.
        used = getattr(field, "format", getattr(api_settings, setting))
        if used is None:
            return Any
        zone = getattr(field, "timezone", settings.USE_TZ or None)
        if used.lower() != ISO_8601 or (zone is None and name == "date-time"):
            return str
        return hints.formatted(name) if name else str
    if isinstance(field, serializers.UUIDField):
        return hints.formatted("uuid") if field.uuid_format == "hex_verbose" else Any
    if isinstance(field, serializers.DecimalField):
        as_text = getattr(field, "coerce_to_string", api_settings.COERCE_DECIMAL_TO_STRING)
        return str if as_text else Any
    return hints.nearest(_READ, field) or spectacular.inferred_hint(field, "response") or Any
