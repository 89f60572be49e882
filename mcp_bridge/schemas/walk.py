"""
Walk JSON Schemas (2020-12): find their subschemas and the targets of their references.

The library ``referencing`` resolves references within the document only; nothing is fetched. A
Bundler makes schemas that strict clients accept: definitions are inlined unless they are recursive,
and null is a separate branch of ``anyOf``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain, count
from typing import Any, Final, NamedTuple

from pydantic.json_schema import JsonSchemaValue

from mcp_bridge.protocol import JSONSchema

# The keywords of 2020-12 that contain one subschema, a list of them, or a mapping of names to them;
# "definitions" is the old name of "$defs".
SINGLE: Final = frozenset(
    {"additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"}
    | {"propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
LISTED: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
NAMED: Final = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)
# Keywords whose subschemas apply only through references.
DEFINITIONS: Final = frozenset({"$defs", "definitions"})
# Keywords whose subschemas apply to the same value as the schema itself.
IN_PLACE: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"}
)
REFERENCES: Final = ("$ref", "$dynamicRef")
# Keywords for unnamed members, and for items.
FURTHER: Final = frozenset({"additionalProperties", "patternProperties", "unevaluatedProperties"})
ITEMS: Final = frozenset({"contains", "items", "prefixItems", "unevaluatedItems"})
# The bounds of a schema that is enforced.
MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 32
MAX_SUBSCHEMAS: Final = 1000
# Schemas that people write never have more subschemas.
MOST_READ: Final = 100_000
DEFS: Final = "#/$defs/"
_NULL: Final[JsonSchemaValue] = {"type": "null"}
# Keywords that describe a value without restricting it.
ANNOTATIONS: Final = frozenset(
    {"default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"}
)
_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}


def size_of(value: object) -> int:
    """Return the number of bytes of a JSON value in compact form."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "replace"))


def depth_of(value: object) -> int:
    """Return the nesting depth of the objects and arrays in a JSON value."""
    depth, level = 0, [value]
    while containers := [each for each in level if isinstance(each, Mapping | list)]:
        depth += 1
        level = []
        for each in containers:
            level += each.values() if isinstance(each, Mapping) else each
    return depth


def excess(value: object) -> str:
    """Return how a JSON value exceeds the bounds of a schema, as a predicate, or ""."""
    if (size := size_of(value)) > MAX_BYTES:
        return f"has {size} bytes, but at most {MAX_BYTES} are allowed"
    if (depth := depth_of(value)) > MAX_DEPTH:
        return f"is {depth} levels deep, but at most {MAX_DEPTH} are allowed"
    return ""


def canonical_text(value: object) -> str:
    """Return the same text for values that are equal in JSON Schema: 1 and 1.0, not 1 and true."""
    return json.dumps(_canonical(value), sort_keys=True)


def _canonical(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _canonical(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_canonical(each) for each in value]
    return value


class Part(NamedTuple):
    """A direct subschema with its keyword, and its index or name, if any."""

    keyword: str
    key: str | int | None
    schema: object


class Place(NamedTuple):
    """
    A member of an object or an item of an array, at ``holder[key]``.

    ``schemas`` may apply to it; ``is_named``: one of them names the member.
    """

    holder: Any
    key: str | int
    schemas: Sequence[object]
    is_named: bool


def subschemas(schema: JSONSchema) -> Iterator[Part]:
    """
    Yield the direct subschemas of a schema, objects and booleans; ``items`` may be a list of them.

    Raises TypeError or AttributeError for a keyword that lacks its required subschemas.
    """
    for keyword, value in schema.items():
        if keyword in NAMED:
            yield from (Part(keyword, name, each) for name, each in value.items())
        elif keyword in LISTED or (keyword in SINGLE and isinstance(value, list)):
            yield from (Part(keyword, index, each) for index, each in enumerate(value))
        elif keyword in SINGLE:
            yield Part(keyword, None, value)


def change_subschemas(schema: JSONSchema, change: Callable[[Any], object]) -> dict[str, Any]:
    """Return a copy of a schema with ``change`` applied to each subschema except booleans."""
    result = dict(schema)
    for keyword, key, subschema in subschemas(schema):
        if key is not None and result[keyword] is schema[keyword]:
            result[keyword] = copy(schema[keyword])
        if isinstance(subschema, Mapping):
            holder: Any = result if key is None else result[keyword]
            holder[keyword if key is None else key] = change(subschema)
    return result


class SchemaDocument:
    """
    A JSON Schema with its subschemas found and its references resolved.

    ``subschemas`` are the ones that are objects, the root first, including those reachable only by
    reference. ``external`` are references to other documents, ``unresolved`` references without a
    target. Raises TypeError or AttributeError for a document that is not a JSON Schema, and
    ValueError for one with more than 100,000 subschemas.
    """

    def __init__(self, root: JSONSchema) -> None:
        self.root = root
        self.subschemas: list[JSONSchema] = []
        self.external: list[str] = []
        self.unresolved: list[str] = []
        # By identity: the document keeps its subschemas alive, so their ids are unique.
        self._targets: dict[int, dict[str, object]] = {}
        seen: set[int] = set()
        # Schemas with their resolvers; None for the root's own.
        pending: list[tuple[Any, Any]] = [(root, self._resolver if "$id" in root else None)]
        referring: list[tuple[JSONSchema, Any]] = []
        while pending or referring:
            if not pending:
                # After everything else: a target may be within an $id, or found only by reference.
                schema, resolver = referring.pop()
                targets = self._targets[id(schema)] = {}
                for keyword, reference, found in _lookup(schema, resolver or self._resolver):
                    if found is not None:
                        targets[keyword] = found.contents
                        pending.append((found.contents, found.resolver))
                    else:
                        # Embedded documents may have an $id: only a lookup shows what is external.
                        is_inside = reference.startswith("#")
                        (self.unresolved if is_inside else self.external).append(reference)
                continue
            schema, resolver = pending.pop()
            if not isinstance(schema, Mapping) or id(schema) in seen:
                continue
            if len(seen) >= MOST_READ:
                raise ValueError(f"it has more than {MOST_READ} subschemas")
            seen.add(id(schema))
            self.subschemas.append(schema)
            if any(keyword in schema for keyword in REFERENCES):
                referring.append((schema, resolver))
            for _, _, each in subschemas(schema):
                inner = resolver
                if isinstance(each, Mapping) and "$id" in each:
                    from referencing.jsonschema import DRAFT202012

                    resource = DRAFT202012.create_resource(each)
                    inner = (resolver or self._resolver).in_subresource(resource)
                pending.append((each, inner))

    @cached_property
    def _resolver(self) -> Any:
        # Imported here, since it takes 2 MB, and few schemas have references.
        from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

        resource = DRAFT202012.create_resource(self.root)
        # An empty registry cannot fetch.
        registry = EMPTY_REGISTRY.with_resource(resource.id() or "", resource)
        with suppress(Exception):
            # It may be of an older dialect, whose pointers can still be resolved.
            registry = registry.crawl()
        return registry.resolver(resource.id() or "")

    def targets(self, schema: JSONSchema) -> Mapping[str, object]:
        """Return the targets of a schema by keyword; a foreign schema is resolved from the root."""
        if id(schema) in self._targets or not any(each in schema for each in REFERENCES):
            return self._targets.get(id(schema), {})
        found = _lookup(schema, self._resolver)
        return {keyword: each.contents for keyword, _, each in found if each is not None}

    def merged(
        self, schema: object, seen: frozenset[int] = frozenset()
    ) -> tuple[JsonSchemaValue, frozenset[int]]:
        """
        Return a schema merged with the targets of its references, and ``seen`` with their ids.

        Keywords beside a reference win over those of its target. A reference is kept if it is
        unresolved, or if its target is the root or has its id() in ``seen``.
        """
        if not isinstance(schema, Mapping):
            return ({"not": {}} if schema is False else {}), seen
        merged = dict(schema)
        while isinstance(schema, Mapping):
            keyword, target = next(iter(self.targets(schema).items()), ("", None))
            if not isinstance(target, Mapping) or target is self.root or id(target) in seen:
                break
            seen |= {id(target)}
            del merged[keyword]
            merged = {**target, **merged}
            schema = target
        return merged, seen

    def visit(self, value: object) -> Iterator[Place]:
        """
        Yield each member and item in a JSON value with its schemas, outer ones first.

        Schemas of all branches count. The caller may replace ``holder[key]``.
        """
        known: dict[tuple[int, ...], list[JSONSchema]] = {}
        pending: list[tuple[Any, Sequence[object]]] = [(value, [self.root])]
        while pending:
            holder, schemas = pending.pop()
            if not isinstance(holder, dict | list):
                continue
            identity = tuple(map(id, schemas))
            if identity not in known:
                known[identity] = self._applied(schemas)
            for key in holder if isinstance(holder, dict) else range(len(holder)):
                below = [each for schema in known[identity] for each in _below(schema, key)]
                is_named = any(key in schema.get("properties", ()) for schema in known[identity])
                yield Place(holder, key, below, is_named)
                pending.append((holder[key], below))

    def _applied(self, schemas: Iterable[object]) -> list[JSONSchema]:
        """Return these schemas with their branches and the targets of their references."""
        found: dict[int, JSONSchema] = {}
        pending = list(schemas)
        while pending:
            each = pending.pop()
            if isinstance(each, Mapping) and id(each) not in found:
                found[id(each)] = each
                pending += self.targets(each).values()
                pending += (part.schema for part in subschemas(each) if part.keyword in IN_PLACE)
        return list(found.values())


def _below(schema: JSONSchema, key: str | int) -> list[object]:
    """Return the subschemas for a member of that name, or an item at that index."""
    if isinstance(key, int):
        items = (each for each in subschemas(schema) if each.keyword in ITEMS)
        return [each.schema for each in items if each.key in (None, key)]
    if key in schema.get("properties", ()):
        return [schema["properties"][key]]
    return [each.schema for each in subschemas(schema) if each.keyword in FURTHER]


def _lookup(schema: JSONSchema, resolver: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield each reference of a schema with its keyword and target, or None."""
    for keyword in REFERENCES:
        reference = schema.get(keyword)
        if isinstance(reference, str):
            found = None
            # A pointer may cross any value, which can raise errors other than the library's.
            with suppress(Exception):
                found = resolver.lookup(reference)
            is_schema = found is not None and isinstance(found.contents, Mapping | bool)
            yield keyword, reference, found if is_schema else None


def _within(schema: object) -> Iterator[JSONSchema]:
    """Yield a schema and its subschemas that are objects; shared parts are yielded each time."""
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            yield part
            pending += (each.schema for each in subschemas(part))


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
            # Clients show the keywords beside the branches; a member's own text takes precedence.
            inner = {**others[0]}
            for key in ("title", "description"):
                if key in inner:
                    schema.setdefault(key, inner.pop(key))
            others = _flat([inner])
        branches = [*others, _NULL]
    schema["anyOf"] = branches
    return schema


def _flat(branches: list[Any]) -> list[Any]:
    """Return the branches of an ``anyOf``, with branches that are only an ``anyOf`` flattened."""
    flat: list[Any] = []
    for each in branches:
        flat += each["anyOf"] if isinstance(each, dict) and each.keys() == {"anyOf"} else [each]
    return flat


def _parted(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Return a schema with several types, or with null as a value, split into branches."""
    kinds, values = schema.get("type"), schema.get("enum")
    about = {key: value for key, value in schema.items() if key in ANNOTATIONS}
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
    # First, since shared parts can make the other bounds slow to compute.
    if any(count >= MAX_SUBSCHEMAS for count, _ in enumerate(_within(schema))):
        return f"has more than {MAX_SUBSCHEMAS} subschemas"
    return excess(schema)


class TooLarge(ValueError):
    """Raised if a schema exceeds the bounds; the text is a predicate."""


@dataclass(eq=False)
class Bundler:
    """
    A converter that replaces references with their definitions, each inlined once.

    ``definition`` looks up a reference. ``finish`` is applied to each schema after its subschemas,
    and may modify it. Results share parts, so they must not be modified.
    """

    definition: Callable[[str], JSONSchema]
    finish: Callable[[JsonSchemaValue], JsonSchemaValue] = strict
    _names: dict[str, str] = field(default_factory=dict)
    _inlined: dict[str, JsonSchemaValue] = field(default_factory=dict)
    _loops: dict[str, bool] = field(default_factory=dict)

    def inlined(self, schema: JSONSchema) -> JsonSchemaValue:
        """Return a schema whose only ``$defs`` are the recursive definitions."""
        found = filter(self._is_loop, sorted(self.reached(schema)))
        loops = {self._name(each): each for each in found}
        whole = self._bundled(schema, self._is_loop)
        if loops:
            whole["$defs"] = {name: self._in_place(each) for name, each in loops.items()}
        return whole

    def within_bounds(self, schema: JSONSchema) -> JsonSchemaValue:
        """Return it inlined, else with all definitions. Raises TooLarge if both are too large."""
        sizes = (size_of(self.definition(each)) for each in self.reached(schema))
        if any(total > MAX_BYTES for total in accumulate(sizes)):
            raise TooLarge(f"is larger than {MAX_BYTES} bytes with all its references")
        try:
            whole = self.inlined(schema)
            wrong = _excess(whole)
        except RecursionError:
            wrong = "is too deep"
        if wrong and (found := sorted(self.reached(schema))):
            named = {
                self._name(each): self._bundled(self.definition(each), lambda _: True)
                for each in found
            }
            whole = {**self._bundled(schema, lambda _: True), "$defs": named}
            wrong = _excess(whole)
        if wrong:
            raise TooLarge(wrong)
        return whole

    def reached(self, schema: JSONSchema) -> Iterator[str]:
        """Yield the references that a schema reaches, directly or through other definitions."""
        found = set[str]()
        pending = [schema]
        while pending:
            for each in [part["$ref"] for part in _within(pending.pop()) if "$ref" in part]:
                if each not in found:
                    found.add(each)
                    yield each
                    pending.append(self.definition(each))

    def _bundled(self, schema: JSONSchema, is_kept: Callable[[str], bool]) -> JsonSchemaValue:
        result = change_subschemas(schema, lambda part: self._bundled(part, is_kept))
        if "$ref" in result:
            reference = result.pop("$ref")
            if is_kept(reference):
                result = {"$ref": DEFS + self._name(reference), **result}
            else:
                result = {**self._in_place(reference), **result}
        return self.finish(result)

    def _in_place(self, reference: str) -> JsonSchemaValue:
        """Return a definition, inlined."""
        if reference not in self._inlined:
            self._inlined[reference] = self._bundled(self.definition(reference), self._is_loop)
        return self._inlined[reference]

    def _is_loop(self, reference: str) -> bool:
        if reference not in self._loops:
            self._loops[reference] = reference in self.reached(self.definition(reference))
        return self._loops[reference]

    def _name(self, reference: str) -> str:
        """Return the unique name of a definition in ``$defs``."""
        if reference not in self._names:
            # pydantic prefixes names with modules if several classes share them.
            last = reference.rpartition("/")[2].rpartition("__")[2]
            last = re.sub(r"[^A-Za-z0-9_.-]+", "_", last) or "root"
            names = chain([last], (f"{last}{number}" for number in count(2)))
            free = (each for each in names if each not in self._names.values())
            self._names[reference] = next(free)
        return self._names[reference]
