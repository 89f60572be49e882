"""Corrections of drf-spectacular's descriptions of fields to the way that views read them."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache, partial
from typing import Any, Final

from drf_spectacular.drainage import has_override
from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.plumbing import ComponentRegistry
from rest_framework import ISO_8601, serializers
from rest_framework.settings import api_settings
from rest_framework.utils import humanize_datetime

from mcp_bridge.schemas.django.spectacular import represents_itself

_FORMS: Final = ("multipart/form-data", "application/x-www-form-urlencoded")
# A schema of any value: drf-spectacular ignores an empty one.
_OPEN: Final[dict[str, Any]] = {"additionalProperties": {}}
_PLAIN: Final = (str, int, float, Decimal, list, tuple, dict, type(None))
_TOLD: Final = ("required", "read_only", "write_only", "allow_null")
_DATES: Final = (
    (serializers.DateTimeField, "DATETIME_INPUT_FORMATS", humanize_datetime.datetime_formats),
    (serializers.DateField, "DATE_INPUT_FORMATS", humanize_datetime.date_formats),
    (serializers.TimeField, "TIME_INPUT_FORMATS", humanize_datetime.time_formats),
)


class Components(ComponentRegistry):
    """
    The components of one operation.

    Two serializers that share a name and differ get two components: the second one is renamed.
    """

    def __contains__(self, component: Any) -> bool:
        name, number = component.name, 1
        while True:
            try:
                found = self[component]
            except KeyError:
                return False
            one, other = found.object, component.object
            if one is other or _identity(one) == _identity(other):
                return True
            number += 1
            component.name = f"{name}{number}"


def _identity(found: Any, around: tuple[type, ...] = ()) -> Any:
    """
    Return a key that tells the objects of components apart: the class of a field, its plain
    arguments, and the keys of the fields within. ``around`` are the classes that it stands in: a
    serializer within itself is told by its class alone.
    """
    if not isinstance(found, serializers.Field):
        return found
    kind: Any = type(found)
    if kind in around:
        return kind
    field: Any = found
    given = {**dict(enumerate(field._args)), **field._kwargs, "validators": None}
    plain = [(name, repr(each)) for name, each in given.items() if isinstance(each, _PLAIN)]
    told = [getattr(found, option, None) for option in _TOLD]
    within = dict(getattr(found, "fields", {}), child=getattr(found, "child", None))
    keys = [(name, _identity(each, (*around, kind))) for name, each in within.items()]
    return kind, plain, told, keys


def correct(view: Any, schema: Any, *, with_answers: bool, as_declared: bool) -> Any:
    """
    Give a view a copy of its AutoSchema that describes fields as views read them; return that.

    Without answers their serializers are not described, which saves half of the time. With
    ``as_declared`` each is described by its fields, even if it has its own to_representation().
    ``answer_error`` is the exception that describing the answers raised, or None, and
    ``undeclared`` names the serializers of answers whose fields do not describe them.
    """
    made = copy.copy(schema)
    made._map_serializer_field = partial(_map_field, made, made._map_serializer_field)
    made._map_serializer = partial(_map_serializer, made, made._map_serializer)
    made._get_response_for_code = partial(_map_answer, made, made._get_response_for_code)
    made._get_response_bodies = partial(_map_answers, made, made._get_response_bodies)
    made.get_request_serializer = cache(made.get_request_serializer)
    made.answer_error, made.undeclared = None, []
    made.with_answers, made.as_declared = with_answers, as_declared
    # By a proxy, as drf-spectacular does it: the descriptor would keep the view for ever.
    view.schema = weakref.proxy(made)
    return made


def _map_answers(made: Any, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
    try:
        return original(*given, **named)
    except Exception as error:
        # An answer that cannot be described does not withhold the tool.
        made.answer_error = error
        return {}


def _map_answer(
    made: Any, original: Callable[..., Any], serializer: Any, *given: Any, **named: Any
) -> Any:
    serializer = _instance(serializer)
    if isinstance(serializer, serializers.BaseSerializer) and not made.with_answers:
        serializer = {"type": "object"}
    elif isinstance(serializer, serializers.ListSerializer) and _hides(made, serializer):
        serializer = None
    return original(serializer, *given, **named)


def _map_serializer(
    made: Any,
    original: Callable[..., Any],
    serializer: Any,
    direction: str,
    *given: Any,
    **named: Any,
) -> Any:
    if direction == "response" and _hides(made, serializer):
        return dict(_OPEN)
    return original(serializer, direction, *given, **named)


def _instance(found: Any) -> Any:
    return found() if isinstance(found, type) else found


def _hides(made: Any, serializer: Any) -> bool:
    """Return whether a serializer has its own to_representation() and no declared schema."""
    found = _instance(serializer)
    is_declared = made.as_declared or OpenApiSerializerExtension.get_match(serializer)
    if is_declared or not represents_itself(found):
        return False
    kind = type(found)
    made.undeclared.append(f"{kind.__module__}.{kind.__qualname__}")
    return True


def _map_field(
    made: Any, original: Callable[..., Any], field: Any, direction: str, *given: Any, **named: Any
) -> Any:
    """Return the schema of a field, or None if it has none in this direction."""
    is_list = direction == "response" and isinstance(field, serializers.ListSerializer)
    if is_list and not has_override(field, "field") and _hides(made, field):
        return dict(_OPEN)
    if isinstance(field, serializers.ChoiceField):
        return _map_choice(original, field, direction, *given, **named)
    schema = original(field, direction, *given, **named)
    if schema and direction == "request":
        for kind, setting, told in _DATES:
            if isinstance(field, kind):
                formats = getattr(field, "input_formats", getattr(api_settings, setting))
                if [each.lower() for each in formats] != [ISO_8601]:
                    tell_formats(schema, told(formats))
    return schema


def tell_formats(schema: dict[str, Any], formats: str) -> None:
    """Describe the formats of a date or a time in words instead of by the schema's ``format``."""
    if schema.pop("format", None) is not None:
        text = schema.get("description")
        schema["description"] = "\n".join(filter(None, (text, f"Format: {formats}.")))


def _map_choice(
    original: Callable[..., Any], field: Any, direction: str, *given: Any, **named: Any
) -> Any:
    """Return the schema of a field of choices of any types; null is not a choice."""
    choices = dict(field.choices)
    null = choices.pop(None, None)
    made = copy.copy(field)
    made.allow_null = field.allow_null or (null is not None and direction == "response")
    made.choices = list(choices.items())
    for kind in (str, int | float | Decimal):
        if choices and all(isinstance(each, kind) for each in choices):
            return original(made, direction, *given, **named)
    # drf-spectacular only describes choices of one type.
    values = {str(each): each for each in choices}
    is_nullable, made.allow_null = made.allow_null, False
    made.choices = [(str(each), label) for each, label in choices.items()]
    schema = original(made, direction, *given, **named)
    whole = schema.get("items", schema) if schema else {}
    if "enum" in whole:
        whole.pop("type", None)
        whole["enum"] = [values.get(each, each) for each in whole["enum"]]
        whole["enum"] += [None] if is_nullable else []
    return schema


def tell_json(operation: dict[str, Any], schema: Any) -> None:
    """Mark the members of forms that are JSON text: those of a JSONField."""
    content = operation.get("requestBody", {}).get("content", {})
    forms = [content[each] for each in _FORMS if each in content]
    names = list(_json_members(_instance(schema.get_request_serializer()))) if forms else ()
    for name in names:
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
