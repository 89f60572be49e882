"""
Self-contained JSON Schemas (2020-12) that strict clients accept.

Definitions are inlined unless they are recursive, and null is a separate branch of ``anyOf``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pydantic.json_schema import JsonSchemaValue

from mcp_bridge.protocol import JSONSchema
from mcp_bridge.schemas.walk import (
    IN_PLACE,
    MAX_BYTES,
    MAX_SUBSCHEMAS,
    canonical_text,
    change_subschemas,
    excess,
    size_of,
    subschemas,
)

DEFINITIONS: Final = "#/$defs/"
_NULL: Final[JsonSchemaValue] = {"type": "null"}
# Keywords that describe a value without restricting it.
_ANNOTATIONS: Final = frozenset(
    {"default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"}
)
_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}


def within_bounds(schema: JSONSchema, definitions: Mapping[str, JSONSchema]) -> JSONSchema:
    """Return a self-contained schema; see ``Bundler.within_bounds()``."""
    return Bundler(definitions.__getitem__).within_bounds(schema)


def references(schema: object) -> Iterator[str]:
    """Yield each ``$ref`` in a schema and in its subschemas."""
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"]
        for part in subschemas(schema):
            yield from references(part.schema)


def strict(schema: JsonSchemaValue) -> JsonSchemaValue:
    """
    Return a schema that strict clients accept if they accept its subschemas; it may be modified.

    Null becomes the last branch of an ``anyOf`` instead of one of several types or values, and
    values of an enum are unique.
    """
    kinds, values = schema.get("type"), schema.get("enum", ())
    if len(values) > 1:
        distinct: dict[str, object] = {}
        for each in values:
            distinct.setdefault(canonical_text(each), each)
        schema["enum"] = values = list(distinct.values())
    if isinstance(kinds, list) or (None in values and len(values) > 1):
        schema = _parted(schema)
    if "anyOf" not in schema:
        return schema
    branches = _flat(schema["anyOf"])
    others = [each for each in branches if each != _NULL]
    if len(others) < len(branches):
        if len(others) == 1 and isinstance(others[0], dict):
            # Clients show what stands beside the branches; a member's own text comes first.
            inner = {**others[0]}
            for key in ("title", "description"):
                if key in inner:
                    schema.setdefault(key, inner.pop(key))
            others = _flat([inner])
        branches = [*others, _NULL]
    schema["anyOf"] = branches
    return schema


def _flat(branches: list[Any]) -> list[Any]:
    """Return the branches of an ``anyOf``, with those of a branch that is nothing but another."""
    flat: list[Any] = []
    for each in branches:
        nested = isinstance(each, dict) and each.keys() == {"anyOf"}
        flat += each["anyOf"] if nested else [each]
    return flat


def _parted(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Return a schema of several types, or of null among its values, with a branch for each."""
    kinds, values = schema.get("type"), schema.get("enum")
    about = {key: value for key, value in schema.items() if key in _ANNOTATIONS}
    rest = {key: value for key, value in schema.items() if key not in (*about, "type")}
    takes_null = kinds is None or "null" in kinds
    if values is not None:
        takes_null = takes_null and None in values
        rest["enum"] = [each for each in values if each is not None]
    if isinstance(kinds, list):
        takes_null = takes_null and rest.get("const") is None
        branches = [{"type": kind, **rest} for kind in kinds if kind != "null"]
    else:
        types = {type(each) for each in rest["enum"]}
        kind = kinds or (_TYPES.get(types.pop()) if len(types) == 1 else None)
        branches = [{"type": kind, **rest} if kind else rest]
    if takes_null:
        branches.append({**_NULL, **{key: rest[key] for key in rest if key in IN_PLACE}})
    if len(branches) > 1:
        return {"anyOf": branches, **about}
    return {**branches[0], **about} if branches else schema


def _excess(schema: JSONSchema) -> str:
    """Return how a schema exceeds the bounds, or ""; shared parts are counted each time."""
    count, pending = 0, list[object]([schema])
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            count += 1
            pending += (each.schema for each in subschemas(part))
            if count > MAX_SUBSCHEMAS:
                # First, since shared parts can make the other bounds slow to compute.
                return f"has more than {MAX_SUBSCHEMAS} subschemas"
    return excess(schema)


class TooLarge(ValueError):
    """A schema exceeds the bounds; the text is a predicate."""


class Bundler:
    """
    Replaces references by their definitions, each of which is inlined once.

    ``definition`` looks up a reference. ``finish`` is applied to each schema after its subschemas,
    and may modify it. Results share parts, so they must not be modified.
    """

    def __init__(
        self,
        definition: Callable[[str], JSONSchema],
        finish: Callable[[JsonSchemaValue], JsonSchemaValue] = strict,
    ) -> None:
        self._definition = definition
        self._finish = finish
        self._names: dict[str, str] = {}
        self._inlined: dict[str, JsonSchemaValue] = {}
        self._loops: dict[str, bool] = {}

    def inlined(self, schema: JSONSchema) -> JsonSchemaValue:
        """Return a schema whose only ``$defs`` are the recursive definitions."""
        loops = {
            self._name(each): each for each in sorted(self.reached(schema)) if self._is_loop(each)
        }
        whole = self._bundled(schema, self._is_loop)
        if loops:
            whole["$defs"] = {name: self._in_place(each) for name, each in loops.items()}
        return whole

    def within_bounds(self, schema: JSONSchema) -> JsonSchemaValue:
        """
        Return the schema inlined or, if that is too large, with all its definitions in ``$defs``.

        Raises TooLarge if both exceed the bounds.
        """
        found, size = [], 0
        for each in self.reached(schema):
            found.append(each)
            size += size_of(self._definition(each))
            if size > MAX_BYTES:
                raise TooLarge(f"is larger than {MAX_BYTES} bytes with all it refers to")
        try:
            whole = self.inlined(schema)
            wrong = _excess(whole)
        except RecursionError:
            wrong = "is too deep"
        if wrong and found:
            named = {
                self._name(each): self._bundled(self._definition(each), lambda _: True)
                for each in sorted(found)
            }
            whole = {**self._bundled(schema, lambda _: True), "$defs": named}
            wrong = _excess(whole)
        if wrong:
            raise TooLarge(wrong)
        return whole

    def reached(self, schema: JSONSchema) -> Iterator[str]:
        """Yield the references that a schema leads to, directly or through other definitions."""
        found = dict.fromkeys(references(schema))
        waiting = list(found)
        while waiting:
            each = waiting.pop()
            yield each
            new = [one for one in references(self._definition(each)) if one not in found]
            found |= dict.fromkeys(new)
            waiting += dict.fromkeys(new)

    def _bundled(self, schema: JSONSchema, is_kept: Callable[[str], bool]) -> JsonSchemaValue:
        result = change_subschemas(schema, lambda part: self._bundled(part, is_kept))
        if "$ref" in result:
            reference = result.pop("$ref")
            if is_kept(reference):
                result = {"$ref": DEFINITIONS + self._name(reference), **result}
            else:
                result = {**self._in_place(reference), **result}
        return self._finish(result)

    def _in_place(self, reference: str) -> JsonSchemaValue:
        """Return a definition, inlined."""
        if reference not in self._inlined:
            target = self._definition(reference)
            self._inlined[reference] = self._bundled(target, self._is_loop)
        return self._inlined[reference]

    def _is_loop(self, reference: str) -> bool:
        if reference not in self._loops:
            self._loops[reference] = reference in self.reached(self._definition(reference))
        return self._loops[reference]

    def _name(self, reference: str) -> str:
        """Return the unique name of a definition in ``$defs``."""
        if reference not in self._names:
            # SchemaGenerator numbers definitions of the same name.
            last = re.sub(r"^[0-9]+__", "", reference.rpartition("/")[2])
            last = re.sub(r"[^A-Za-z0-9_.-]+", "_", last) or "root"
            name, number = last, 1
            while name in self._names.values():
                number += 1
                name = f"{last}{number}"
            self._names[reference] = name
        return self._names[reference]
