"""A quick yes for values of plain schemas, by jsonschema-rs where that is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from mcp_bridge.protocol import JSONSchema

try:
    import jsonschema_rs
except ImportError:
    jsonschema_rs = None

# Keywords that the two libraries read in the same way. Each value is checked by one subschema at
# most, so that its size bounds the work.
_ALIKE: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const"}
    | {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
# Numbers that are the same as an integer and as a float.
_EXACT: Final = 2**53
_NUMBERS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_TEXTS: Final = (str, bool, type(None))


def quick_check(
    schema: JSONSchema, parts: Iterable[JSONSchema], most_steps: int
) -> Callable[[object], bool] | None:
    """
    Return a function that returns True for most of the JSON values that are valid.

    What it does not say True of may be valid all the same: of what is wrong, large or unusual, the
    bounded validator decides. None for a schema with keywords that are not read alike, and without
    jsonschema-rs. ``parts`` are its subschemas, itself among them.
    """
    parts = list(parts)
    if jsonschema_rs is None or not all(map(_is_plain, parts)):
        return None
    is_valid = jsonschema_rs.Draft202012Validator(schema).is_valid
    sizes = (len(each) for part in parts for each in part.values() if isinstance(each, dict | list))
    # No less than the bounded validator counts for a value (see keywords._counted).
    price = max(map(len, parts), default=0) * (3 + max(sizes, default=0) // 16)
    most = most_steps // max(price, 1)

    def is_surely_valid(instance: object) -> bool:
        if not _is_ordinary(instance, most):
            return False
        try:
            return bool(is_valid(instance))
        except Exception:
            # It reads less deep, and other text, than Python.
            return False

    return is_surely_valid


def _is_plain(schema: JSONSchema) -> bool:
    if not all(name in _ALIKE or name.startswith("x-") for name in schema):
        return False
    values = [schema["const"]] if "const" in schema else schema.get("enum", ())
    return all(type(each) is str for each in values) and all(
        type(schema.get(name, 0)) in (int, float) and abs(schema.get(name, 0)) < _EXACT
        for name in _NUMBERS
    )


def _is_ordinary(instance: object, most: int) -> bool:
    """Return whether a value has no more parts than that, all of JSON, and no large numbers."""
    parts: list[Any] = [instance]
    # It grows meanwhile.
    for each in parts:
        kind = type(each)
        if kind is dict:
            parts += each.values()
        elif kind is list:
            parts += each
        elif kind is int or kind is float:
            if not -_EXACT < each < _EXACT:
                return False
        elif kind not in _TEXTS:
            return False
        if len(parts) > most:
            return False
    return True
