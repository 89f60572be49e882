"""
pydantic's strict JSON mode, tightened to what its own JSON Schemas say.

In a few places pydantic accepts more than it advertises: ``true`` for the literal 1, a number for a
date, the same item twice for a set. A model that reads the schema would not send these, and a value
that the schema refuses must not reach a procedure.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from typing import Any, Final

from pydantic_core import (
    CoreConfig,
    PydanticCustomError,
    PydanticKnownError,
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
_HOLDERS: Final = (dict, list, tuple)
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
# Of definitions, which stand beside the model and have nothing of its config.
_OUTSIDE: Final = CoreConfig(strict=True, allow_inf_nan=False, val_json_bytes="base64")
# By the type of a core schema, what its values go through when they are received.
_RECEIVED: Final[dict[str, Callable[[Any], Any]]] = {}


def strict_validator(
    schema: Any, *, receives: bool = False, whole_numbers: bool = False
) -> SchemaValidator:
    """
    A validator for the JSON of a model's core schema, which accepts what its JSON Schema says.

    With ``receives``, its values go through what on_receipt() was given. With ``whole_numbers``,
    which costs time, 2.0 is an integer too, as JSON Schema has it.
    """
    tightened: Any = _tightened(schema)
    if whole_numbers:
        tightened = _with_whole_numbers(tightened)
    if receives and any(each.get("type") in _RECEIVED for each in _parts(schema)):
        tightened = _received(tightened)
    # Prebuilt validators of nested models would be the ones that accept more.
    return SchemaValidator(tightened, _OUTSIDE, _use_prebuilt=False)


def on_receipt(kind: str, convert: Callable[[Any], Any]) -> None:
    """
    Have every value of a core type, such as "datetime", converted before a procedure receives it.

    Types that demand or refuse a time zone themselves are left alone.
    """
    _RECEIVED[kind] = convert


def takes_paths(schema: Any) -> bool:
    """Whether a core schema makes paths of what is sent, anywhere in it."""
    kinds = [each.get("cls") for each in _parts(schema) if each.get("type") == "is-instance"]
    return any(isinstance(kind, type) and issubclass(kind, os.PathLike) for kind in kinds)


def serializer(schema: Any, config: CoreConfig) -> SchemaSerializer:
    """
    A serializer that writes bytes as the base64 of RFC 4648, section 4, which schemas promise.

    pydantic's own writes the url-safe alphabet of section 5.
    """
    if any(map(_is_bytes, _parts(schema))):
        schema = _encoded(schema)
    # Prebuilt serializers of nested models would be the ones of the other alphabet.
    return SchemaSerializer(schema, config, _use_prebuilt=False)


def has_own_code(schema: Any) -> bool:
    """
    Whether a core schema holds code of the site's own: validators, serializers, computed fields.

    Such a type may read in another way than it is written, or do more than look.
    """
    return any(
        "serialization" in each
        or each.get("init") is False
        or each.get("computed_fields")
        or str(each.get("type")).startswith("function-")
        for each in _parts(schema)
    )


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """A core schema and all that it holds, without values that may look like schemas."""
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            for key, value in each.items():
                if key in _NAMED and isinstance(value, dict):
                    waiting.extend(value.values())
                elif isinstance(value, _HOLDERS) and key not in _VALUES:
                    waiting.append(value)
        elif isinstance(each, _HOLDERS):
            waiting.extend(each)


def with_parts(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """The core schema with each of its parts changed."""
    changed: dict[str, Any] = {}
    for key, value in schema.items():
        if not isinstance(value, _HOLDERS) or key in _VALUES:
            changed[key] = value
        elif key in _NAMED and isinstance(value, dict):
            changed[key] = {name: change(each) for name, each in value.items()}
        else:
            changed[key] = change(value)
    return changed


def copied(schema: Any) -> Any:
    """A core schema of which nothing is shared but the values."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(copied, schema))
    return with_parts(schema, copied) if isinstance(schema, dict) else schema


def _encoded(schema: Any) -> Any:
    if isinstance(schema, list | tuple):
        return type(schema)(map(_encoded, schema))
    if not isinstance(schema, dict):
        return schema
    inner = with_parts(schema, _encoded)
    if _is_bytes(inner):
        inner["serialization"] = {
            "type": "function-plain",
            "function": _base64,
            "when_used": "json",
        }
    return inner


def _is_bytes(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "bytes" and "serialization" not in schema


def _base64(data: Any) -> str:
    if not isinstance(data, bytes | bytearray):
        raise PydanticSerializationUnexpectedValue("no bytes")
    return base64.b64encode(data).decode("ascii")


def _tightened(schema: Any) -> Any:
    """A core schema with a guard in front of every part that needs one."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(_tightened, schema))
    if not isinstance(schema, dict):
        return schema
    inner = with_parts(schema, _tightened)
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


def _with_whole_numbers(schema: Any) -> Any:
    """Return a core schema in which every integer may be sent as a float without a fraction."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(_with_whole_numbers, schema))
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "int":
        reference = {"ref": schema["ref"]} if "ref" in schema else {}
        inner = {key: value for key, value in schema.items() if key != "ref"}
        # In a union, only the lax mode lets a float go to the branch of floats first.
        lax = {**inner, "strict": False}
        return {**_function("before", _check_whole, lax), **reference}
    changed = with_parts(schema, _with_whole_numbers)
    if "keys_schema" in schema:
        # The keys of JSON objects are texts, which are read as integers in JSON alone.
        changed["keys_schema"] = schema["keys_schema"]
    return changed


def _check_whole(value: object) -> object:
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        # pydantic makes no integers of larger floats.
        return value if abs(value) < 2**53 else int(value)
    raise PydanticKnownError("int_type")


def _received(schema: Any) -> Any:
    if isinstance(schema, list | tuple):
        return type(schema)(map(_received, schema))
    if not isinstance(schema, dict):
        return schema
    convert = _RECEIVED.get(str(schema.get("type")))
    if convert is None or "tz_constraint" in schema:
        return with_parts(schema, _received)
    return _function("after", convert, dict(schema))


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
