"""OpenAPI's schemas as JSON Schemas of the dialect 2020-12, within the bounds of the package."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from mcp_bridge.protocol import JSONObject, JSONSchema
from mcp_bridge.protocol.text import cut, quoted
from mcp_bridge.schemas.generator import with_null_apart
from mcp_bridge.schemas.validation.validator import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_SUBSCHEMAS,
)
from mcp_bridge.schemas.walk import (
    LISTED,
    NAMED,
    SINGLE,
    change_subschemas,
    depth_of,
    subschemas,
)
from mcp_bridge.sources.operations.keywords import (
    ABOUT,
    PARTS,
    TYPES,
    VALUES,
    Schema,
    about_of,
    add_parts,
    nullable,
    translate,
    unmatchable,
)
from mcp_bridge.sources.operations.read import Document, Unmappable

# No schema within the bounds stands inside more others.
_MAX_LEVELS: Final = 40
_DEFINITIONS: Final = "#/$defs/"
# Formats that clients assert and answers break, by a missing offset or a fraction; the first one
# only if datetimes are naive.
_UNHELD: Final = ("date-time", "time", "duration")


class Side(Enum):
    """Where a schema stands: members that are read-only or write-only are on one side only."""

    INPUT = "input"
    # Without defaults: a client that fills them in would overwrite what it does not mean.
    PATCH = "patch"
    OUTPUT = "output"

    @property
    def left_out(self) -> str:
        """The keyword of the members that are not on this side."""
        return "writeOnly" if self is Side.OUTPUT else "readOnly"


class Size(NamedTuple):
    """What the bounds of a schema count: bytes, levels, and subschemas."""

    bytes: int
    levels: int
    subschemas: int

    def exceeded(self) -> str | None:
        """Return what is wrong where a bound is exceeded."""
        for size, most, unit in (
            (self.bytes, MAX_BYTES, "bytes"),
            (self.levels, MAX_DEPTH, "levels"),
            (self.subschemas, MAX_SUBSCHEMAS, "subschemas"),
        ):
            if size > most:
                return f"has {size} {unit}, and at most {most} are allowed"
        return None


class Converter:
    """
    The schemas of a document, converted: each once, however many operations have it.

    What it returns may share parts, so it is not to be changed. ``notes`` are sentences on what
    was taken out of the schemas that were converted since the list was last emptied.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self._unheld = _UNHELD if document.is_naive else _UNHELD[1:]
        self.notes: list[str] = []
        # By side and reference.
        self._converted: dict[tuple[Side, str], JSONSchema] = {}
        self._converted_notes: dict[tuple[Side, str], list[str]] = {}
        self._inlined: dict[tuple[Side, str], JSONSchema] = {}
        self._is_recursive: dict[tuple[Side, str], bool] = {}
        self._names: dict[str, str] = {}
        # Of what has been inlined, by id(): it is kept, so that no other object has the same.
        self._sizes: dict[int, Size] = {}

    @classmethod
    def of(cls, document: Document) -> Converter:
        """Return the one of a document, without the notes of earlier schemas."""
        found = document.converter
        if not isinstance(found, cls):
            document.converter = found = cls(document)
        found.notes = []
        return found

    def convert(
        self, schema: object, side: Side, absent: Collection[str] = (), level: int = 0
    ) -> Schema:
        """
        Return a schema of OpenAPI as one of JSON Schema, whose references are still the document's.

        ``absent`` are members that another part of an ``allOf`` has left out.
        """
        if level > _MAX_LEVELS:
            raise Unmappable(f"a schema of it is more than {MAX_DEPTH} levels deep")
        if not isinstance(schema, Mapping):
            return {"not": {}} if schema is False else {}
        if "$ref" in schema:
            return self._convert_reference(schema, side, level)

        def below(part: object) -> Schema:
            return self.convert(part, side, level=level + 1)

        result: Schema = {}
        for name, value in schema.items():
            if name in VALUES and (name != "default" or side is Side.INPUT):
                read = VALUES[name](value)
                if read is not None:
                    result[name] = read
            elif name == "additionalProperties" and value is False:
                result[name] = False
            elif name in PARTS:
                result[name] = below(value)
            elif name in ("patternProperties", "dependentSchemas") and isinstance(value, Mapping):
                result[name] = {str(key): below(each) for key, each in value.items()}
            elif name in ("anyOf", "oneOf", "prefixItems") and isinstance(value, list) and value:
                # With discriminators and read-only members gone, branches are more alike than they
                # were: that a value fits just one is for the service to say.
                is_choice = name == "oneOf" and "anyOf" not in schema
                result["anyOf" if is_choice else name] = [below(each) for each in value]
        if isinstance(schema.get("items"), list):
            result["prefixItems"] = [below(each) for each in schema["items"]] or [{}]
            del result["items"]
        gone = {*absent, *self._left_out(schema, side)}
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            result["properties"] = {
                str(name): self.member(str(name), each, side, level)
                for name, each in properties.items()
                if name not in gone
            }
        required = schema.get("required")
        if isinstance(required, list):
            names = dict.fromkeys(each for each in required if isinstance(each, str))
            result["required"] = [each for each in names if each not in gone]
        result = {key: each for key, each in result.items() if key != "required" or each}
        self._clean(result)
        translate(schema, result)
        if side is Side.OUTPUT and result.get("format") in self._unheld:
            del result["format"]
        parts = schema.get("allOf")
        if isinstance(parts, list) and parts:
            merged = [self._part(each, side, gone, level) for each in parts]
            add_parts(result, merged)
        if schema.get("nullable") is True:
            result = nullable(result)
        return with_null_apart(result)

    def member(self, name: str, schema: object, side: Side, level: int = 0) -> Schema:
        """Return the converted schema of a member or a parameter of that name."""
        result = self.convert(schema, side, level=level + 1)
        # A title that only says the name again, as generators make them.
        if _plain(result.get("title")) == _plain(name):
            result.pop("title", None)
        return result

    def within_bounds(self, schema: JSONSchema, side: Side, name: str) -> JSONSchema:
        """
        Return a converted schema by itself: with the targets of its references in their places.

        What refers to itself stays in ``$defs``, and so does everything where the whole would be
        too large. Raises Unmappable for what is too large even so; ``name`` says what it is.
        """
        reached = self._reached(schema, side)
        if reached is None:
            raise Unmappable(f"{name} is larger than {MAX_BYTES} bytes with all it refers to")
        kept = {each for each in reached if self._recursive(each, side)}
        for in_place in (True, False):
            if in_place:
                try:
                    whole = dict(self._inline(schema, side))
                    named = {self._name(each): self._in_place(each, side) for each in kept}
                except RecursionError:
                    continue
            else:
                whole = _renamed(schema, self._name)
                named = {
                    self._name(each): _renamed(self._component(each, side), self._name)
                    for each in reached
                }
            if named:
                whole["$defs"] = dict(sorted(named.items()))
            wrong = self._size(whole).exceeded()
            if wrong is None or not reached:
                break
        if wrong is not None:
            raise Unmappable(f"{name} {wrong}")
        return whole

    def resolve(self, schema: object) -> JSONObject:
        """Return OpenAPI's schema with the target of its reference, if it is one, merged in."""
        return self.document.resolve(schema) if isinstance(schema, Mapping) else {}

    def root(self, schema: JSONSchema, side: Side) -> JSONSchema:
        """Return a converted schema with the targets of its references at its root merged in."""
        for _ in range(_MAX_LEVELS):
            reference, parts = schema.get("$ref"), schema.get("allOf")
            if isinstance(reference, str):
                beside = {key: each for key, each in schema.items() if key != "$ref"}
                schema = {**self._component(reference, side), **beside}
            elif isinstance(parts, list):
                merged = {key: each for key, each in schema.items() if key != "allOf"}
                add_parts(merged, [dict(self.root(each, side)) for each in parts])
                if "allOf" in merged:
                    return merged
                schema = merged
            else:
                return schema
        raise Unmappable("its references lead round in a circle")

    def _convert_reference(self, schema: JSONObject, side: Side, level: int) -> Schema:
        reference = schema["$ref"]
        target = self.document.target(reference)
        if not isinstance(target, Mapping | bool):
            raise Unmappable(f"it refers to {quoted(str(reference))}, which is no schema")
        if self.document.has_bare_references:
            return {"$ref": reference}
        beside = self.convert({k: v for k, v in schema.items() if k != "$ref"}, side, (), level)
        branches = beside.get("anyOf")
        if schema.get("nullable") is True:
            return {**nullable({"$ref": reference}), **about_of(beside)}
        if branches is not None or beside.keys() - ABOUT:
            rest = {key: each for key, each in beside.items() if key not in ABOUT}
            return {"allOf": [{"$ref": reference}, rest], **about_of(beside)}
        return {"$ref": reference, **beside}

    def _part(self, schema: object, side: Side, gone: Collection[str], level: int) -> Schema:
        """Return a part of an ``allOf``."""
        target = self.resolve(schema)
        required = target.get("required")
        names = [each for each in required if each in gone] if isinstance(required, list) else ()
        if isinstance(schema, Mapping) and "$ref" in schema and names:
            schema = target
        return self.convert(schema, side, gone, level + 1)

    def _left_out(self, schema: JSONObject, side: Side, level: int = 0) -> Iterator[str]:
        """Yield the names of the members that are not on this side, those of all parts."""
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            for name, each in properties.items():
                if self._is_left_out(each, side):
                    yield name
        parts = schema.get("allOf")
        if isinstance(parts, list) and level < _MAX_LEVELS:
            for each in parts:
                yield from self._left_out(self.resolve(each), side, level + 1)

    def _is_left_out(self, schema: object, side: Side) -> bool:
        found = self.resolve(schema)
        if found.get(side.left_out) is True:
            return True
        # The only part of an allOf is how OpenAPI 3.0 writes something beside a reference.
        parts = found.get("allOf")
        alone = isinstance(parts, list) and len(parts) == 1
        return alone and self.resolve(parts[0]).get(side.left_out) is True  # type: ignore[index]

    def _clean(self, schema: Schema) -> None:
        """Take out what no validator could enforce."""
        kinds = schema.get("type")
        if kinds is not None:
            named = kinds if isinstance(kinds, list) else [kinds]
            known = list(dict.fromkeys(each for each in named if each in TYPES))
            if not known:
                self.notes.append(f"The type {quoted(str(kinds))} is none, so any value is taken.")
                del schema["type"]
            else:
                schema["type"] = known if isinstance(kinds, list) and len(known) > 1 else known[0]
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and (why := unmatchable(pattern)):
            del schema["pattern"]
            text = f"It has to match the pattern {cut(pattern, 200)}"
            schema["description"] = f"{schema.get('description', '')}\n{text}".strip()
            self.notes.append(
                f"The pattern {quoted(pattern)} is told but not enforced, since it cannot be "
                f"matched in linear time: {why}."
            )
        patterns = schema.get("patternProperties")
        if isinstance(patterns, Mapping) and any(map(unmatchable, patterns)):
            del schema["patternProperties"]
            # It was said of those with other names.
            schema.pop("additionalProperties", None)
            self.notes.append("Patterns of names are not enforced, since one has look-around.")

    def _component(self, reference: str, side: Side) -> JSONSchema:
        """Return what a reference leads to, converted once."""
        key = (side, reference)
        if key not in self._converted:
            before, self.notes = self.notes, []
            target = self.document.target(reference)
            schema = self.convert(target, side)
            if _plain(schema.get("title")) == _plain(reference.rpartition("/")[2]):
                schema.pop("title", None)
            self._converted[key], self._converted_notes[key] = schema, self.notes
            self._sizes[id(schema)] = self._size(schema)
            self.notes = before
        return self._converted[key]

    def _reached(self, schema: JSONSchema, side: Side) -> list[str] | None:
        """Return the references that a schema reaches; None where they lead to too much."""
        found: dict[str, None] = dict.fromkeys(references(schema))
        waiting, size = list(found), 0
        while waiting:
            reference = waiting.pop()
            component = self._component(reference, side)
            size += self._size(component).bytes
            if size > MAX_BYTES:
                return None
            new = [each for each in references(component) if each not in found]
            found.update(dict.fromkeys(new))
            waiting += dict.fromkeys(new)
        for each in found:
            self.notes += self._converted_notes[side, each]
        return list(found)

    def _recursive(self, reference: str, side: Side) -> bool:
        key = (side, reference)
        if key not in self._is_recursive:
            reached = self._reached_again(reference, side)
            self._is_recursive[key] = reference in reached
        return self._is_recursive[key]

    def _reached_again(self, reference: str, side: Side) -> set[str]:
        """Return what the target of a reference reaches in turn."""
        found: set[str] = set()
        waiting = [reference]
        while waiting:
            new = set(references(self._component(waiting.pop(), side))) - found
            found |= new
            waiting += new
        return found

    def _in_place(self, reference: str, side: Side) -> JSONSchema:
        key = (side, reference)
        if key not in self._inlined:
            schema = self._inline(self._component(reference, side), side)
            self._inlined[key], self._sizes[id(schema)] = schema, self._size(schema)
        return self._inlined[key]

    def _inline(self, schema: JSONSchema, side: Side) -> JSONSchema:
        if not any(references(schema)):
            return schema
        result = change_subschemas(schema, lambda part: self._inline(part, side))
        reference = result.get("$ref")
        if isinstance(reference, str):
            if self._recursive(reference, side):
                result["$ref"] = _DEFINITIONS + self._name(reference)
            else:
                del result["$ref"]
                target = self._in_place(reference, side)
                # The same object where nothing stands beside it: its size is known then.
                return {**target, **result} if result else target
        parts = result.get("allOf")
        if isinstance(parts, list) and "allOf" in schema:
            del result["allOf"]
            add_parts(result, parts)
        return with_null_apart(result) if "anyOf" in result else result

    def _name(self, reference: str) -> str:
        """Return the name in ``$defs`` of what a reference leads to: one for each."""
        if reference not in self._names:
            last = re.sub(r"[^A-Za-z0-9_.-]+", "_", reference.rpartition("/")[2]) or "root"
            name, number = last, 1
            while name in self._names.values():
                number += 1
                name = f"{last}{number}"
            self._names[reference] = name
        return self._names[reference]

    def _size(self, schema: object) -> Size:
        """Return the size of a schema, of which parts that are shared are counted each time."""
        known = self._sizes.get(id(schema))
        if known is not None:
            return known
        if not isinstance(schema, Mapping):
            return Size(len(_json(schema)), 0, 0)
        # The braces, less a comma.
        total, levels, parts = 1 + (not schema), 0, 1
        for keyword, value in schema.items():
            total += len(_json(keyword)) + 2
            if keyword in NAMED:
                sizes = [self._size(each) for each in value.values()]
                total += 1 + (not value) + sum(len(_json(name)) + 2 for name in value)
            elif keyword in LISTED:
                sizes = [self._size(each) for each in value]
                total += len(value) + 1
            elif keyword in SINGLE:
                sizes = [self._size(value)]
            else:
                total += len(_json(value))
                levels = max(levels, depth_of(value))
                continue
            total += sum(each.bytes for each in sizes)
            parts += sum(each.subschemas for each in sizes)
            inner = max((each.levels for each in sizes), default=0)
            levels = max(levels, inner + (keyword not in SINGLE))
        return Size(total, levels + 1, parts)


def references(schema: object) -> Iterator[str]:
    """Yield the references of a converted schema, of all its parts."""
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"]
        for part in subschemas(schema):
            yield from references(part.schema)


def _renamed(schema: JSONSchema, name: Callable[[str], str]) -> Schema:
    """Return a schema whose references lead to ``$defs``."""
    result = change_subschemas(schema, lambda part: _renamed(part, name))
    if "$ref" in result:
        result["$ref"] = _DEFINITIONS + name(str(result["$ref"]))
    return result


def _plain(text: object) -> str:
    return re.sub(r"[\W_]", "", str(text)).casefold()


def _json(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")
