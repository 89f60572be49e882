"""
Make pydantic's strict JSON mode as strict as its own JSON Schemas.

In a few places pydantic accepts more than it advertises: ``true`` for the literal 1, a number for a
date, the same item twice for a set. A model that reads the schema would not send these, and a value
that the schema refuses must not reach a procedure.
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any, Final, cast

from pydantic_core import (
    CoreConfig,
    CoreSchema,
    PydanticCustomError,
    PydanticKnownError,
    PydanticSerializationUnexpectedValue,
    SchemaSerializer,
    SchemaValidator,
)

from mcp_bridge.schemas.core_schemas import CoreNode, with_parts

Convert = Callable[[object], object]

_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})?"
# The text forms of RFC 3339 and RFC 9562 that the schema's formats name; times may be naive.
# A decimal may be sent as a number too.
_TEXTS: Final = {
    "date": (re.compile(_DAY), "a date such as 2024-02-29"),
    "time": (re.compile(_CLOCK), "a time such as 14:30:00"),
    "datetime": (re.compile(rf"{_DAY}[Tt ]{_CLOCK}"), "a time such as 2024-02-29T14:30:00Z"),
    "timedelta": (re.compile(r"[+-]?P.+"), "a duration such as P1DT2H"),
    "uuid": (
        re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
        "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
    ),
    "decimal": (
        re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?"),
        "a number, or a text like 1.10",
    ),
}
# For definitions, which stand beside the model and have nothing of its config.
_DEFINITIONS: Final = CoreConfig(strict=True, allow_inf_nan=False, val_json_bytes="base64")
# By the type of a core schema, the function that converts its values for a procedure.
_CONVERTERS: Final[dict[str, Convert]] = {}


def strict_validator(
    schema: Mapping[str, object], *, receives: bool = False, whole_numbers: bool = False
) -> SchemaValidator:
    """
    Return a validator of JSON for a core schema, which accepts just what its JSON Schema does.

    With ``receives`` its values go through the functions given to on_receipt(). With
    ``whole_numbers``, which costs time, 2.0 is an integer too, as JSON Schema has it.
    """
    converters = _CONVERTERS if receives else {}
    return plain_validator(_tightened({**schema}, converters, whole_numbers), _DEFINITIONS)


def plain_validator(schema: CoreNode, config: CoreConfig | None = None) -> SchemaValidator:
    """Return a validator that enforces a rewritten core schema in nested classes too."""
    # The prebuilt validators of nested classes know nothing of how the schema was rewritten.
    return SchemaValidator(cast(CoreSchema, schema), config, _use_prebuilt=False)


def serializer(schema: CoreNode, config: CoreConfig) -> SchemaSerializer:
    """Return a serializer that writes bytes as the base64 of RFC 4648, section 4, not section 5."""
    # The prebuilt serializers of nested classes write the other alphabet.
    return SchemaSerializer(cast(CoreSchema, _encoded(schema)), config, _use_prebuilt=False)


def on_receipt(kind: str, convert: Callable[[Any], object]) -> None:
    """Convert the values of a core type that demands no time zone before a procedure has them."""
    _CONVERTERS[kind] = convert


def _encoded(schema: CoreNode) -> CoreNode:
    inner = with_parts(schema, _encoded)
    if inner.get("type") == "bytes" and "serialization" not in inner:
        function = {"type": "function-plain", "function": _base64, "when_used": "json"}
        inner["serialization"] = function
    return inner


def _base64(data: object) -> str:
    if not isinstance(data, bytes | bytearray):
        raise PydanticSerializationUnexpectedValue("no bytes")
    return base64.b64encode(data).decode("ascii")


def _tightened(
    schema: CoreNode, converters: Mapping[str, Convert], whole_numbers: bool
) -> CoreNode:
    """Return a core schema with a guard in front of every part that needs one."""
    inner = with_parts(schema, lambda part: _tightened(part, converters, whole_numbers))
    if whole_numbers and "keys_schema" in schema:
        # The keys of JSON objects are texts, which are read as integers in JSON alone.
        inner["keys_schema"] = _tightened(schema["keys_schema"], converters, False)
    kind = str(inner.get("type"))
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
        make = inner["cls"]
        inner = {"type": "tuple", "items_schema": [each["schema"] for each in inner["fields"]]}
        inner = _with_function("after", lambda items: make(*items), inner)
    elif kind in ("set", "frozenset"):
        collect = functools.partial(_distinct, frozenset if kind == "frozenset" else set)
        inner = _with_function("after", collect, {**inner, "type": "list"})
    else:
        is_lax = kind in _TEXTS or (kind == "int" and whole_numbers)
        if is_lax:
            # The guard passes values of the right form only. In a union, only the lax mode lets a
            # float go to the branch of floats first.
            inner["strict"] = False
        if kind in converters and "tz_constraint" not in inner:
            inner = _with_function("after", converters[kind], inner)
        guard = _check_whole if kind == "int" and is_lax else _guard(kind, schema)
        if guard is not None:
            inner = _with_function("before", guard, inner)
    return {**inner, **reference}


def _check_whole(value: object) -> object:
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        # pydantic makes no integers of larger floats.
        return value if abs(value) < 2**53 else int(value)
    raise PydanticKnownError("int_type")


def _with_function(when: str, function: Callable[..., object], schema: CoreNode) -> CoreNode:
    called = {"type": "no-info", "function": function}
    return {"type": f"function-{when}", "function": called, "schema": schema}


def _guard(kind: str, schema: CoreNode) -> Convert | None:
    if kind in _TEXTS:
        return functools.partial(_check_text, kind, *_TEXTS[kind])
    if kind not in ("literal", "enum"):
        return None
    members = schema["expected" if kind == "literal" else "members"]
    choices = [(each.value if isinstance(each, Enum) else each, each) for each in members]
    # Python finds numbers and booleans equal.
    is_needed = any(isinstance(choice, int | float) for choice, _ in choices)
    return functools.partial(_check_choice, choices) if is_needed else None


def _check_text(kind: str, pattern: re.Pattern[str], wanted: str, value: object) -> object:
    if isinstance(value, str):
        fits = pattern.fullmatch(value) is not None
    else:
        fits = kind == "decimal" and type(value) in (int, float)
    if fits:
        return value
    raise PydanticCustomError(f"{kind}_format", "Input should be {wanted}", {"wanted": wanted})


def _check_choice(choices: list[tuple[object, object]], value: object) -> object:
    for choice, member in choices:
        if isinstance(choice, bool) is isinstance(value, bool) and choice == value:
            return member
    wanted = ", ".join(json.dumps(choice) for choice, _ in choices)
    raise PydanticCustomError("literal_error", "Input should be {wanted}", {"wanted": wanted})


def _distinct(kind: Callable[[list[object]], Collection[object]], items: list[object]) -> object:
    distinct = kind(items)
    if len(distinct) != len(items):
        raise PydanticCustomError("unique_items", "Input should not hold an item twice")
    return distinct
