"""The errors of a schema in short sentences, however large the values in them are."""

from __future__ import annotations

import json
from typing import Any, Final

from jsonschema.exceptions import ValidationError

from mcp_bridge.protocol.text import cut

_LONG: Final = 100
_MANY: Final = 50
_SENTENCES: Final = {
    None: "is not allowed here",
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
    "oneOf": "fits more than one schema",
    "unevaluatedItems": "holds items that are not allowed",
    "unevaluatedProperties": "holds members that are not allowed",
    "items": "holds more items than are allowed",
}
_TYPES: Final = {
    "array": "an array",
    "integer": "an integer",
    "null": "null",
    "object": "an object",
}


# jsonschema puts the repr of a value into each message: with a large one, that is most of the work
# of a check.
_Text, _Object, _Array = (
    type(kind.__name__, (kind,), {"__repr__": lambda value: "…"}) for kind in (str, dict, list)
)


def quiet(value: object) -> object:
    """Return the same JSON value, with a short repr at every level."""
    if isinstance(value, str):
        return value if len(value) <= _LONG else _Text(value)
    if isinstance(value, dict):
        return _Object({key: quiet(each) for key, each in value.items()})
    if isinstance(value, list | tuple):
        return _Array([quiet(each) for each in value])
    return value


def explain(error: ValidationError) -> str:
    """Return an error as a sentence of at most 300 characters, without the value itself."""
    wanted: Any = error.validator_value
    match error.validator:
        case "type":
            names = [wanted] if isinstance(wanted, str) else wanted
            return f"must be {' or '.join(_TYPES.get(name, f'a {name}') for name in names)}"
        case "enum":
            more = ", …" if len(wanted) > _MANY else ""
            return cut(f"must be one of {', '.join(map(_json, wanted[:_MANY]))}{more}", 300)
        case "oneOf" if error.context:
            return "fits none of the schemas in 'oneOf'"
        case keyword if keyword in _SENTENCES:
            return cut(_SENTENCES[keyword].format(_json(wanted)), 300)
    # The other keywords name members: those of this package, and the ones of the schema's own.
    return cut(error.message, 300)


def _json(value: object) -> str:
    return cut(json.dumps(value, ensure_ascii=False), 200)
