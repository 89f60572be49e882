"""
pydantic's JSON Schemas, made as simple as strict clients want them.

Everything is inlined but what refers to itself, ``X | None`` is one type with ``null``, and titles
that only repeat a name are left out. The dialect is JSON Schema 2020-12.
"""

from __future__ import annotations

import base64
import functools
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pydantic.json_schema import (
    DefsRef,
    GenerateJsonSchema,
    JsonSchemaMode,
    JsonSchemaWarningKind,
)

_REFERENCE: Final = "#/$defs/"
# Where a schema holds schemas; whatever stands elsewhere (default, const, enum) is a value.
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_LISTED: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE: Final = frozenset(
    {"items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"}
)
# How Python writes a Decimal that is a number.
_WRITTEN: Final = r"^-?[0-9]+(\.[0-9]+)?(E[+-][0-9]+)?$"
_NAIVE: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?$"


class SchemaGenerator(GenerateJsonSchema):
    """pydantic's generator without the titles it makes of field names."""

    # A default that is no JSON is left out of the schema; the parameter stays optional.
    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"non-serializable-default"}

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[Any, DefsRef] = {}

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> dict[str, Any]:
        # pydantic's own compares all definitions several times, to give each the shortest name;
        # simplify() inlines most of them, and shortens the names of the others.
        self._mode = mode
        root = self.generate_inner(schema)
        if self.defs_to_core_refs.keys() - self.definitions.keys():
            # A definition that is no JSON was left out: this raises why, where it is referred to.
            self.get_json_ref_counts(root)
        return {**root, "$defs": self.definitions}

    def get_defs_ref(self, core_mode_ref: Any) -> DefsRef:
        if core_mode_ref not in self._names:
            # Of "module.Box:1[module.Item:2]" the name is "Box[Item]".
            parts = re.split(r"([\][,])", core_mode_ref[0])
            words = "".join(each.rsplit(":", 1)[0].rsplit(".", 1)[-1] for each in parts)
            name = self.normalize_name(words)
            taken = name in self._names.values()
            self._names[core_mode_ref] = DefsRef(f"{len(self._names)}__{name}" if taken else name)
        return self._names[core_mode_ref]

    def build_schema_type_to_method(self) -> dict[Any, Any]:
        return {kind: getattr(self, name) for kind, name in _methods()}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def bytes_schema(self, schema: Any) -> dict[str, Any]:
        # The lengths in the hint are of the bytes, and not of the text that encodes them.
        return {"type": "string", "contentEncoding": "base64"}

    def encode_default(self, dft: Any) -> Any:
        if dft is None or type(dft) in (str, int, bool):
            # pydantic's own would make a serializer for each.
            return dft
        if isinstance(dft, bytes):
            # pydantic's own is in the url-safe alphabet.
            return base64.b64encode(dft).decode("ascii")
        return super().encode_default(dft)

    def field_is_present(self, field: Any) -> bool:
        # A member that the constructor does not take cannot be sent.
        sent = self.mode != "validation" or field.get("init") is not False
        return sent and super().field_is_present(field)

    def get_decimal_pattern(self, schema: Any) -> str:
        # Of a result pydantic's own would say at length what nobody has to keep to.
        if self.mode != "validation":
            return _WRITTEN
        # Of more digits Python makes no Decimal, or one that is dear to reckon with.
        return self.build_decimal_pattern(schema).replace("[eE][+-]?[0-9]+", "[eE][+-]?[0-9]{1,4}")

    def datetime_schema(self, schema: Any) -> dict[str, Any]:
        # The format "date-time" demands the offset that a naive one must not have.
        if schema.get("tz_constraint") == "naive":
            return {"type": "string", "pattern": _NAIVE}
        return super().datetime_schema(schema)


@functools.cache
def _methods() -> list[tuple[str, str]]:
    """pydantic's table of what describes which core type, by the names of the methods."""
    table = GenerateJsonSchema().build_schema_type_to_method()
    return [(kind, method.__name__) for kind, method in table.items()]


def generate(schema: Any, mode: JsonSchemaMode) -> dict[str, Any]:
    """The simplified schema of a core schema; raises PydanticInvalidForJsonSchema."""
    return simplify(SchemaGenerator().generate(schema, mode))


@contextmanager
def ignore_readonly_warnings() -> Iterator[None]:
    """Have pydantic read hints without a warning of what concerns no caller."""
    with warnings.catch_warnings():
        # The dict that a procedure receives is its own, so nothing has to protect its items.
        warnings.filterwarnings("ignore", message=".*`ReadOnly` qualifier")
        yield


def simplify(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema with ``$defs`` only for recursion, and without generated titles."""
    definitions = {
        name: {key: value for key, value in each.items() if not _names_itself(name, key, value)}
        for name, each in schema.get("$defs", {}).items()
    }
    root = {key: value for key, value in schema.items() if key not in ("$defs", "title")}
    graph = {name: _references(each) for name, each in definitions.items()}
    reached = {name: _reached(graph, name) for name in graph}
    kept = {name for name in graph if name in reached[name]}
    inlined: dict[str, Any] = _inline(root, definitions, kept)
    used = _references(inlined)
    for name in list(used):
        used |= reached[name] & kept
    if not used:
        return inlined
    inlined["$defs"] = {
        name: _inline(definitions[name], definitions, kept) for name in sorted(used)
    }
    short = _short_names(used)
    changed = any(name != each for name, each in short.items())
    renamed: dict[str, Any] = _renamed(inlined, short) if changed else inlined
    return renamed


def _names_itself(name: str, key: str, value: Any) -> bool:
    """Whether it is the title that pydantic makes of a class's name; arguments may follow it."""
    if key != "title" or not isinstance(value, str):
        return False
    title = re.escape(re.sub(r"\W", "_", value))
    return re.search(rf"{title}$|(^|__){title}_", name) is not None


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
    if not isinstance(schema, dict):
        return schema
    result = {key: _renamed(value, names) for key, value in schema.items()}
    if isinstance(result.get("$ref"), str):
        result["$ref"] = _REFERENCE + names[result["$ref"].removeprefix(_REFERENCE)]
    if "$defs" in result:
        result["$defs"] = {names[name]: each for name, each in result["$defs"].items()}
    return result


def _references(schema: Any) -> set[str]:
    """The names of all definitions that a schema refers to by itself."""
    found: set[str] = set()
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if isinstance(each.get("$ref"), str):
                found.add(each["$ref"].removeprefix(_REFERENCE))
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return found


def _reached(graph: Mapping[str, set[str]], name: str) -> set[str]:
    """The names that lead on from one, over any number of others."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = graph.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found


def _inline(schema: Any, definitions: Mapping[str, Any], kept: set[str]) -> Any:
    if not isinstance(schema, dict):
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
