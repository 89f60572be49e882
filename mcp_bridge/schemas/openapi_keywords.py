"""OpenAPI's keywords of schemas as those of JSON Schema: which are kept, and what they mean."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeGuard

from mcp_bridge.protocol import JSONObject, JSONSchema

Schema = dict[str, object]

TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
# Keywords that say something of a value but do not restrict it.
ABOUT: Final = frozenset({"title", "description", "default", "deprecated"})


def merge_objects(parts: Iterable[JSONSchema]) -> Schema | None:
    """Return the parts of an ``allOf`` as one schema, or None where one is no plain object."""
    merged: Schema = {"type": "object"}
    properties: dict[str, JSONSchema] = {}
    required: dict[str, None] = {}
    others = []
    for part in parts:
        is_object = part.get("type", "object" if "properties" in part else None) == "object"
        if part.keys() <= ABOUT or not part.keys() - {*ABOUT, "required"}:
            is_object = True
        if not is_object or part.keys() - PLAIN:
            return None
        for name, each in part.get("properties", {}).items():
            before = properties.get(name, each)
            properties[name] = each if before == each else {"allOf": [before, each]}
        required |= dict.fromkeys(part.get("required", ()))
        others += [part["additionalProperties"]] if "additionalProperties" in part else []
        merged |= about_of(part)
    if properties:
        merged["properties"] = properties
    if required:
        merged["required"] = list(required)
    # That there are no others was said of each part without the rest.
    if others and all(each == others[0] is not False for each in others):
        merged["additionalProperties"] = others[0]
    return merged


def add_parts(schema: Schema, parts: list[Schema]) -> None:
    """Add the parts of an ``allOf`` to the schema that it stands in, in it where they can be."""
    own = {key: each for key, each in schema.items() if key not in ABOUT}
    parts = [each for each in parts if each]
    if len(parts) == 1 and not own.keys() & parts[0].keys():
        for key, each in parts[0].items():
            schema.setdefault(key, each)
        if "$ref" not in schema or schema.keys() <= {"$ref", *ABOUT}:
            return
        for key in parts[0]:
            del schema[key]
    merged = merge_objects([*parts, schema]) if len(parts) > 1 or own else None
    if merged is not None and "properties" in merged:
        schema.clear()
        schema.update(merged)
    elif parts:
        schema["allOf"] = parts


def nullable(schema: Schema) -> Schema:
    """Return the schema of the same values or null."""
    about = about_of(schema)
    rest = {key: each for key, each in schema.items() if key not in ABOUT}
    values = rest.get("enum")
    if isinstance(values, list):
        rest["enum"] = [each for each in values if each is not None]
    if not rest:
        # Anything may be null anyway.
        return schema
    return {"anyOf": [rest, {"type": "null"}], **about}


def about_of(schema: JSONSchema) -> Schema:
    """Return the keywords of a schema that do not restrict its values."""
    return {key: each for key, each in schema.items() if key in ABOUT}


def translate(schema: JSONObject, result: Schema) -> None:
    """Change keywords that OpenAPI 3.0 has in its own way; drop a format that no value fits."""
    # Imported here, since it imports jsonschema, and most sites have no such schemas.
    from mcp_bridge.schemas.validation import FORMATS

    values = result.get("enum", [result["const"]] if "const" in result else [])
    name = result.get("format")
    if (
        isinstance(name, str)
        and isinstance(values, list)
        and not all(FORMATS.conforms(each, name) for each in values)
    ):
        del result["format"]
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if schema.get(bound) is True and limit in result:
            result[bound] = result.pop(limit)
    if result.get("format") == "byte":
        del result["format"]
        result["contentEncoding"] = "base64"
    elif result.get("format") == "binary":
        del result["format"]
        result.setdefault("contentMediaType", "application/octet-stream")


def unmatchable(pattern: str) -> str:
    """
    Return why a pattern cannot be matched in time linear in the text's length, or "".

    Neither is one enforced that Python cannot read, as many clients are written in it.
    """
    from mcp_bridge.schemas.validation import matcher

    try:
        matcher(pattern)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (ValueError, re.error) as why:
        return str(why)
    return ""


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


PLAIN: Final = ABOUT | {"type", "properties", "required", "additionalProperties"}
PARTS: Final = frozenset(
    {"additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"}
)
# The keywords that are kept, with what says whether a value is one that they may have.
VALUES: Final[dict[str, Callable[[object], bool]]] = {
    **dict.fromkeys(
        ("title", "description", "format", "pattern", "contentEncoding", "contentMediaType"),
        lambda value: isinstance(value, str) and value != "",
    ),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems")
        + ("minProperties", "maxProperties", "minContains", "maxContains"),
        lambda value: type(value) is int and value >= 0,
    ),
    **dict.fromkeys(("deprecated", "uniqueItems"), lambda value: value is True),
    **dict.fromkeys(("default", "const"), lambda value: True),
    "type": lambda value: isinstance(value, str) or (_is_texts(value) and value != []),
    "enum": lambda value: isinstance(value, list) and value != [],
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "dependentRequired": lambda value: (
        isinstance(value, Mapping) and all(map(_is_texts, value.values()))
    ),
}
