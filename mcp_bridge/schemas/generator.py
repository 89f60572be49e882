"""
pydantic's JSON Schemas, made as simple as strict clients want them.

Everything is inlined but what refers to itself, ``X | None`` is one type with ``null``, and titles
that only repeat a name are left out. The dialect is JSON Schema 2020-12.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaWarningKind

_REFERENCE: Final = "#/$defs/"
# Where a schema holds schemas; whatever stands elsewhere (default, const, enum) is a value.
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_LISTED: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE: Final = frozenset(
    {"items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"}
)


class SchemaGenerator(GenerateJsonSchema):
    """pydantic's generator without the titles it makes of field names."""

    # A default that is no JSON is left out of the schema; the parameter stays optional.
    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def bytes_schema(self, schema: Any) -> dict[str, Any]:
        # The lengths in the hint are of the bytes, and not of the text that encodes them.
        return {"type": "string", "contentEncoding": "base64"}


def generate(model: type[BaseModel], mode: JsonSchemaMode) -> dict[str, Any]:
    """The simplified schema of a pydantic model; raises PydanticInvalidForJsonSchema."""
    return simplify(model.model_json_schema(schema_generator=SchemaGenerator, mode=mode))


def simplify(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema with ``$defs`` only for recursion, and without generated titles."""
    definitions = {
        name: {key: value for key, value in each.items() if not _names_itself(name, key, value)}
        for name, each in schema.get("$defs", {}).items()
    }
    root = {key: value for key, value in schema.items() if key not in ("$defs", "title")}
    kept = {name for name in definitions if name in _reachable(definitions, name)}
    inlined = _inline(root, definitions, kept)
    used = _references(inlined)
    for name in list(used):
        used |= _reachable(definitions, name) & kept
    if used:
        inlined["$defs"] = {
            name: _inline(definitions[name], definitions, kept) for name in sorted(used)
        }
    renamed: dict[str, Any] = _renamed(inlined, _short_names(used))
    return renamed


def _names_itself(name: str, key: str, value: Any) -> bool:
    return key == "title" and isinstance(value, str) and name.endswith(re.sub(r"\W", "_", value))


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Names without the modules that pydantic puts before those that would be the same."""
    short: dict[str, str] = {}
    for name in sorted(names):
        last = wanted = name.rsplit("__", 1)[-1]
        number = 1
        while wanted in short.values():
            number += 1
            wanted = f"{last}{number}"
        short[name] = wanted
    return short


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    if isinstance(schema, list):
        return [_renamed(each, names) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    result = {key: _renamed(value, names) for key, value in schema.items()}
    if isinstance(result.get("$ref"), str):
        result["$ref"] = _REFERENCE + names[result["$ref"].removeprefix(_REFERENCE)]
    if "$defs" in result:
        result["$defs"] = {names[name]: each for name, each in result["$defs"].items()}
    return result


def _references(schema: Any) -> set[str]:
    """The names of all definitions that a schema refers to by itself."""
    if isinstance(schema, Mapping):
        found = set().union(*(_references(value) for value in schema.values()))
        reference = schema.get("$ref")
        if isinstance(reference, str):
            found.add(reference.removeprefix(_REFERENCE))
        return found
    if isinstance(schema, list):
        return set().union(*(_references(each) for each in schema))
    return set()


def _reachable(definitions: Mapping[str, Any], name: str) -> set[str]:
    found: set[str] = set()
    waiting = _references(definitions[name])
    while waiting:
        each = waiting.pop()
        if each not in found and each in definitions:
            found.add(each)
            waiting |= _references(definitions[each])
    return found


def _inline(schema: Any, definitions: Mapping[str, Any], kept: set[str]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED:
            result[key] = {name: _inline(v, definitions, kept) for name, v in value.items()}
        elif key in _LISTED:
            result[key] = [_inline(each, definitions, kept) for each in value]
        elif key in _SINGLE:
            result[key] = _inline(value, definitions, kept)
        elif key != "discriminator":
            # OpenAPI's discriminator is no JSON Schema, and refers to what is inlined here.
            result[key] = value
    name = str(result.get("$ref", "")).removeprefix(_REFERENCE)
    if name and name not in kept:
        del result["$ref"]
        result = {**_inline(definitions[name], definitions, kept), **result}
    return _nullable(result)


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Write ``anyOf: [X, null]`` as X with one more type, where X has one type."""
    branches = schema.get("anyOf")
    if not isinstance(branches, list) or len(branches) != 2 or {"type": "null"} not in branches:
        return schema
    other: dict[str, Any] = next((each for each in branches if each != {"type": "null"}), {})
    if not isinstance(other.get("type"), str):
        return schema
    merged = {**other, **{key: value for key, value in schema.items() if key != "anyOf"}}
    merged["type"] = [other["type"], "null"]
    if "const" in merged:
        merged["enum"] = [merged.pop("const")]
    if "enum" in merged:
        merged["enum"] = [*merged["enum"], None]
    return merged
