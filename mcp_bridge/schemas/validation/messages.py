"""Violations of a schema in short sentences, whatever the values in them hold."""

from __future__ import annotations

import json
from typing import Any, Final, cast

from jsonschema.exceptions import ValidationError

from mcp_bridge.protocol.text import cut

_LONG: Final = 100
_MANY: Final = 50
_WORDS: Final = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} members",
    "maxProperties": "must have at most {} members",
    "const": "must be {}",
    "pattern": "must match the pattern {}",
    "format": "must be of the format {}",
    "uniqueItems": "must not hold the same item twice",
    "not": "must not be as this schema's 'not' says",
    "contains": "does not hold as many items as 'contains' wants, of the kind it describes",
    "anyOf": "fits none of the schemas that are allowed here",
    "unevaluatedItems": "holds items that are not allowed",
    "unevaluatedProperties": "holds members that are not allowed",
    "items": "holds more items than are allowed",
}
_TYPES: Final = {"object": "an object", "array": "an array", "integer": "an integer"}


class _Object(dict[str, Any]):
    def __repr__(self) -> str:
        return "{…}"


class _Array(list[Any]):
    def __repr__(self) -> str:
        return "[…]"


class _Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return repr(self[:_LONG] + "…")


def quiet(value: Any) -> Any:
    """
    The same JSON value, with a short repr at every level.

    jsonschema puts the repr of a value into each message: with a large one, that is most of the
    work of a check.
    """
    if isinstance(value, str):
        return value if len(value) <= _LONG else _Text(value)
    if isinstance(value, dict):
        return _Object({key: quiet(each) for key, each in value.items()})
    if isinstance(value, list | tuple):
        return _Array([quiet(each) for each in value])
    return value


def explain(error: ValidationError) -> str:
    """What is wrong, in a sentence of at most 300 characters."""
    keyword, wanted = str(error.validator), cast("Any", error.validator_value)
    if error.validator is None:
        return "is not allowed here"
    if keyword == "type":
        return f"must be {_types(wanted)}"
    if keyword == "enum":
        more = ", …" if len(wanted) > _MANY else ""
        return cut(f"must be one of {', '.join(map(_json, wanted[:_MANY]))}{more}", 300)
    if keyword == "oneOf":
        return (
            "fits none of the schemas in 'oneOf'" if error.context else "fits more than one schema"
        )
    if keyword in _WORDS:
        return cut(_WORDS[keyword].format(_json(wanted)), 300)
    # What is left names members, by keywords of this package or out of the schema.
    return cut(error.message, 300)


def _types(wanted: Any) -> str:
    names = [wanted] if isinstance(wanted, str) else wanted
    return " or ".join(
        _TYPES.get(name, "null" if name == "null" else f"a {name}") for name in names
    )


def _json(value: Any) -> str:
    return cut(json.dumps(value, ensure_ascii=False), 200)
