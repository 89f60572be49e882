"""
Make pydantic's strict JSON mode as strict as its own JSON Schemas.

In some places pydantic accepts more than its schema: ``true`` for the literal 1, a number for a
date, the same item twice for a set. A model that reads the schema does not send these, and a value
that the schema refuses must not reach a procedure.
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, cast

import pydantic_core
from pydantic_core import CoreConfig, PydanticCustomError, SchemaSerializer, SchemaValidator

from mcp_bridge.schemas.core_schemas import CoreNode, change_root, with_parts
from mcp_bridge.schemas.limits import Key, check_hashes, count_step, hashes_choosable, with_keys
from mcp_bridge.schemas.walk import canonical_text

Convert = Callable[[Any], object]

# Converting a Decimal to an integer takes quadratic time in its digits.
LONGEST_DECIMAL: Final = 1000
_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})?"
# The string forms (RFC 3339, RFC 9562) of the schema's formats; times may be naive. A decimal may
# be sent as a number too.
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
        re.compile(
            rf"(?=.{{1,{LONGEST_DECIMAL}}}$)[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{{1,4}})?"
        ),
        "a number, or a string like 1.10",
    ),
}
# The core types of containers of any length.
_STOPPABLE: Final = frozenset(
    {"list", "tuple", "deque", "dict", "counter", "frozendict", "ordered-dict"}
)
# Returns its argument, without the cost of a Python function.
_SAME: Final = functools.partial(dict[object, object]().get, None)
# Python types without a JSON equivalent, which are sent as arrays, strings or objects.
_OF_JSON: Final = frozenset({"tuple", "bytes", "deque", "counter", "frozendict", "ordered-dict"})
# For definitions, which are outside the model and do not inherit its config.
_DEFINITIONS: Final = CoreConfig(strict=True, allow_inf_nan=False, val_json_bytes="base64")
# Functions that convert values for procedures, by core schema type.
_CONVERTERS: Final[dict[str, Convert]] = {}


class _Options(NamedTuple):
    read_integer: Convert | None
    stops_early: bool
    counts_unions: bool
    is_key: bool = False


def strict_validator(
    schema: Mapping[str, object], *, read_integer: Convert | None = None, stops_early: bool = False
) -> SchemaValidator:
    """
    Return a JSON validator for a core schema that accepts exactly what its JSON Schema accepts.

    ``read_integer`` reads integers before pydantic does; with it, values also go through the
    functions given to on_receipt(). With ``stops_early``, an array or dict is read only up to its
    first error.
    """
    options = _Options(read_integer, stops_early, schema["type"] == "definitions")
    tightened = _tightened({**schema}, options)
    # Errors contain their input: a copy of JSON, but only a reference to a Python value.
    whole = change_root(tightened, lambda root: _with_function("before", _SAME, root))
    return plain_validator(whole, _DEFINITIONS)


def plain_validator(schema: CoreNode, config: CoreConfig | None = None) -> SchemaValidator:
    """Return a validator that enforces a rewritten core schema in nested classes too."""
    # The prebuilt validators of nested classes ignore the rewritten schema.
    return SchemaValidator(cast(pydantic_core.CoreSchema, schema), config, _use_prebuilt=False)


def serializer(schema: CoreNode, config: CoreConfig) -> SchemaSerializer:
    """Return a serializer that writes bytes as Base64 (RFC 4648, section 4, not section 5)."""
    # The prebuilt serializers of nested classes use the other alphabet.
    return SchemaSerializer(
        cast(pydantic_core.CoreSchema, _encoded(schema)), config, _use_prebuilt=False
    )


def on_receipt(kind: str, convert: Callable[[Any], object]) -> None:
    """Convert values of a core type, unless it requires a time zone, for procedures."""
    _CONVERTERS[kind] = convert


def _encoded(schema: CoreNode) -> CoreNode:
    inner = with_parts(schema, _encoded)
    if inner.get("type") == "bytes" and "serialization" not in inner:
        function = {"type": "function-plain", "function": _base64, "when_used": "json"}
        inner["serialization"] = function
    return inner


def _base64(data: object) -> str:
    if not isinstance(data, bytes | bytearray):
        raise pydantic_core.PydanticSerializationUnexpectedValue("no bytes")
    return base64.b64encode(data).decode("ascii")


def _tightened(schema: CoreNode, options: _Options) -> CoreNode:
    """Return a core schema with a guard before every part that needs one."""
    inner = with_parts(schema, lambda part: _tightened(part, options))
    if "keys_schema" in schema:
        inner["keys_schema"] = _tightened(schema["keys_schema"], options._replace(is_key=True))
    kind = str(inner.get("type"))
    guard = _guard(kind, schema)
    if kind == "union" and options.counts_unions:
        guard = count_step
    elif kind == "int" and not options.is_key:
        guard = options.read_integer
    if "strict" in inner:
        inner["strict"] = True
    # The keys of JSON objects are strings, including those that are read as numbers.
    is_text = options.is_key and kind in ("int", "float", "bool")
    if is_text or kind in _OF_JSON or kind in _TEXTS or (kind == "int" and guard is not None):
        # The guard only lets values of the right form through. In a union, only lax mode tries a
        # float with the float branch first.
        inner["strict"] = False
    if kind == "model" or "config" in inner:
        # A class with its own config is not strict by default.
        inner["config"] = {**inner.get("config", {}), "strict": True}
    if kind == "tagged-union":
        # A tag that is an enum member is sent as its value.
        read = pydantic_core.to_jsonable_python
        inner["choices"] = {read(tag): each for tag, each in inner["choices"].items()}
    reference = {"ref": inner.pop("ref")} if "ref" in inner else {}
    after: list[Convert] = []
    if kind == "named-tuple":
        # The schema's type is array, so members cannot be named.
        make, items = inner["cls"], [each["schema"] for each in inner["fields"]]
        after = [lambda items: make(*cast("list[object]", items))]
        inner = {"type": "tuple", "items_schema": items, "strict": False}
    elif kind in ("generator", "set", "frozenset"):
        # A generator would validate its items only while the procedure runs.
        inner["type"] = "list"
        if hashes_choosable(schema):
            after.append(check_hashes)
        if kind != "generator":
            after.append(functools.partial(_distinct, frozenset if kind == "frozenset" else set))
    elif hashes_choosable(schema):
        inner["keys_schema"] = _with_function("after", Key, inner["keys_schema"])
        after = [with_keys]
    elif options.read_integer and kind in _CONVERTERS and "tz_constraint" not in inner:
        after = [_CONVERTERS[kind]]
    if options.stops_early and inner.get("type") in _STOPPABLE:
        inner["fail_fast"] = True
    for each in after:
        inner = _with_function("after", each, inner)
    if guard is not None:
        inner = _with_function("before", guard, inner)
    return {**inner, **reference}


def _with_function(when: str, function: Callable[..., object], schema: CoreNode) -> CoreNode:
    called = {"type": "no-info", "function": function}
    return {"type": f"function-{when}", "function": called, "schema": schema}


def _guard(kind: str, schema: CoreNode) -> Convert | None:
    if kind in _TEXTS:
        return functools.partial(_check_text, kind, *_TEXTS[kind])
    if kind not in ("literal", "enum"):
        return None
    members = schema["expected" if kind == "literal" else "members"]
    values = members if kind == "literal" else [each.value for each in members]
    # pydantic handles strings and null. Like Python, it considers 1 and True equal, and it does not
    # accept the JSON form of other values, such as an enum member in a literal.
    if all(value is None or isinstance(value, str) for value in values):
        return None
    choices = [pydantic_core.to_jsonable_python(each) for each in members]
    # Keep the first of equal values. Aliases of an enum are members too.
    known = dict(zip(map(canonical_text, choices[::-1]), members[::-1], strict=True))
    wanted = ", ".join(dict.fromkeys(map(json.dumps, choices)))
    return functools.partial(_check_choice, known, wanted)


def _check_text(kind: str, pattern: re.Pattern[str], wanted: str, value: object) -> object:
    is_number = kind == "decimal" and type(value) in (int, float)
    if not is_number and not (isinstance(value, str) and pattern.fullmatch(value)):
        raise PydanticCustomError(f"{kind}_format", "Input should be {wanted}", {"wanted": wanted})
    return value


def _check_choice(known: Mapping[str, object], wanted: str, value: object) -> object:
    text = canonical_text(value)
    if text not in known:
        raise PydanticCustomError("literal_error", "Input should be {wanted}", {"wanted": wanted})
    return known[text]


def _distinct(kind: Callable[[list[object]], Collection[object]], items: list[object]) -> object:
    distinct = kind(items)
    if len(distinct) != len(items):
        raise PydanticCustomError("unique_items", "Input should not contain an item twice")
    return distinct
