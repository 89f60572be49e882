"""
pydantic's strict JSON mode, tightened to what its own JSON Schemas say.

In a few places pydantic accepts more than it advertises: ``true`` for the literal 1, a number for a
date, the same item twice for a set. A model that reads the schema would not send these, and a value
that the schema refuses must not reach a procedure.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import (
    PydanticCustomError,
    PydanticSerializationUnexpectedValue,
    SchemaSerializer,
    SchemaValidator,
)

_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})?"
# The text forms of RFC 3339 and RFC 9562 that the schema's formats name; times may be naive.
_TEXTS: Final = {
    "date": (re.compile(_DAY), "a date such as 2024-02-29"),
    "time": (re.compile(_CLOCK), "a time such as 14:30:00"),
    "datetime": (re.compile(rf"{_DAY}[Tt ]{_CLOCK}"), "a time such as 2024-02-29T14:30:00Z"),
    "timedelta": (re.compile(r"[+-]?P.+"), "a duration such as P1DT2H"),
    "uuid": (
        re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
        "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
    ),
}
# Where a core schema holds values, which may look like schemas, and not schemas.
_VALUES: Final = frozenset(
    {"cls", "config", "default", "expected", "function", "members", "metadata", "ref"}
    | {"serialization"}
)
# Where it holds schemas by names (of members, of tags), which may be any word.
_NAMED: Final = frozenset({"fields", "choices"})
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def strict_validator(model: type[BaseModel]) -> SchemaValidator:
    """A validator for the model's JSON that accepts what the model's schema says, and no more."""
    schema: Any = _tightened(model.__pydantic_core_schema__)
    # Prebuilt validators of nested models would be the ones that accept more.
    return SchemaValidator(schema, _use_prebuilt=False)


def bytes_serializer(schema: Any) -> SchemaSerializer | None:
    """
    A serializer that writes bytes as the base64 of RFC 4648, section 4, which schemas promise.

    pydantic's own writes the url-safe alphabet of section 5. None for a core schema without bytes,
    whose own serializer is as good.
    """
    encoded = _encoded(schema)
    # Prebuilt serializers of nested models would be the ones of the other alphabet.
    return None if encoded == schema else SchemaSerializer(encoded, _use_prebuilt=False)


def has_own_code(schema: Any) -> bool:
    """
    Whether a core schema holds code of the site's own: validators, serializers, computed fields.

    Such a type may read in another way than it is written, or do more than look.
    """
    if isinstance(schema, list):
        return any(map(has_own_code, schema))
    if not isinstance(schema, Mapping):
        return False
    own = str(schema.get("type")).startswith("function-") or schema.get("init") is False
    return (
        own
        or "serialization" in schema
        or bool(schema.get("computed_fields"))
        or any(map(has_own_code, _parts(schema)))
    )


def _parts(schema: Mapping[str, Any]) -> Iterator[Any]:
    """What a core schema holds, without values that may look like schemas."""
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, Mapping):
            yield from value.values()
        elif key not in _VALUES:
            yield value


def _changed(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """The core schema with each of its parts changed."""
    changed: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, Mapping):
            changed[key] = {name: change(each) for name, each in value.items()}
        else:
            changed[key] = value if key in _VALUES else change(value)
    return changed


def _encoded(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_encoded(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = _changed(schema, _encoded)
    if inner.get("type") == "bytes" and "serialization" not in inner:
        inner["serialization"] = {
            "type": "function-plain",
            "function": _base64,
            "when_used": "json",
        }
    return inner


def _base64(data: Any) -> str:
    if not isinstance(data, bytes | bytearray):
        raise PydanticSerializationUnexpectedValue("no bytes")
    return base64.b64encode(data).decode("ascii")


def _tightened(schema: Any) -> Any:
    """A core schema with a guard in front of every part that needs one."""
    if isinstance(schema, list):
        return [_tightened(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = _changed(schema, _tightened)
    kind = inner.get("type")
    if "strict" in inner:
        inner["strict"] = True
    if kind == "model" or "config" in inner:
        # A class with a config of its own is not strict unless it says so.
        inner["config"] = {**inner.get("config", {}), "strict": True}
    if kind == "generator":
        # A generator would check its items while the procedure runs.
        return {**inner, "type": "list"}
    reference = {"ref": inner.pop("ref")} if "ref" in inner else {}
    if kind == "named-tuple":
        # The schema says array, so members cannot be named.
        items = {"type": "tuple", "items_schema": [each["schema"] for each in inner["fields"]]}
        return {**_function("after", _called(inner["cls"]), items), **reference}
    if kind in ("set", "frozenset"):
        listed = {**inner, "type": "list"}
        collect = _distinct(frozenset if kind == "frozenset" else set)
        return {**_function("after", collect, listed), **reference}
    guard = _guard(inner)
    if guard is None:
        return {**inner, **reference}
    if kind in _TEXTS or kind == "decimal":
        # What the guard lets through is a text of the one right form.
        inner["strict"] = False
    return {**_function("before", guard, inner), **reference}


def _function(when: str, function: Callable[[Any], Any], schema: Any) -> dict[str, Any]:
    called = {"type": "no-info", "function": function}
    return {"type": f"function-{when}", "function": called, "schema": schema}


def _guard(schema: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    kind = schema.get("type")
    if kind in _TEXTS:
        return _text_guard(*_TEXTS[kind], kind)
    if kind == "decimal":
        return _check_decimal
    if kind == "literal":
        return _choice_guard(schema["expected"])
    if kind == "enum":
        return _choice_guard(schema["members"])
    return None


def _text_guard(pattern: re.Pattern[str], wanted: str, kind: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        raise PydanticCustomError(f"{kind}_format", "Input should be {wanted}", {"wanted": wanted})

    return check


def _check_decimal(value: Any) -> Any:
    text = isinstance(value, str) and _NUMBER.fullmatch(value)
    if text or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise PydanticCustomError("decimal_format", "Input should be a number, or a text like 1.10")


def _called(kind: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda items: kind(*items)


def _distinct(kind: Callable[[list[Any]], Collection[Any]]) -> Callable[[list[Any]], Any]:
    def collect(items: list[Any]) -> Any:
        distinct = kind(items)
        if len(distinct) != len(items):
            raise PydanticCustomError("unique_items", "Input should not hold an item twice")
        return distinct

    return collect


def _choice_guard(members: Any) -> Callable[[Any], Any] | None:
    """A guard for choices with numbers or booleans among them, which Python finds equal."""
    choices = [(each.value if isinstance(each, Enum) else each, each) for each in members]
    if not any(isinstance(choice, int | float) for choice, _ in choices):
        return None

    def check(value: Any) -> Any:
        for choice, member in choices:
            if isinstance(choice, bool) is isinstance(value, bool) and choice == value:
                return member
        wanted = ", ".join(json.dumps(choice) for choice, _ in choices)
        raise PydanticCustomError("literal_error", "Input should be {wanted}", {"wanted": wanted})

    return check
