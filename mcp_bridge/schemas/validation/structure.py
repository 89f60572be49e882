"""What a JSON Schema consists of: its subschemas, its references, its size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from referencing import Registry
from referencing.jsonschema import DRAFT202012

# Keywords whose subschemas apply to the very value that the schema itself applies to.
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("not", "if", "then", "else")
_REFERENCES: Final = ("$ref", "$dynamicRef")


class Structure:
    """
    The parts of a schema (2020-12), found without fetching anything.

    ``subschemas`` are the schemas in it that are objects, itself the first, and those that only a
    reference leads to. ``external`` are references to other documents, ``unresolved`` those that
    lead nowhere, ``dialects`` what ``$schema`` says below the root.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.subschemas: list[Mapping[str, Any]] = []
        # What finds the targets of a subschema's references, by its place in ``subschemas``.
        self.resolvers: list[Any] = []
        self.external: list[str] = []
        self.unresolved: list[str] = []
        self.dialects = [
            str(each["$schema"])
            for each in _below(schema)
            if each is not schema
            if "$schema" in each
        ]
        self._edges: dict[int, list[int]] = {}
        if not self.dialects:
            self._walk(schema)

    @property
    def count(self) -> int:
        """How many subschemas there are."""
        return len(self.subschemas)

    @cached_property
    def is_circular(self) -> bool:
        """Whether a schema leads back to itself without going into the value."""
        try:
            TopologicalSorter(self._edges).prepare()
        except CycleError:
            return True
        return False

    @staticmethod
    def size_of(schema: Any) -> int:
        """The bytes of its JSON text, as short as it can be written."""
        return len(json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode())

    @staticmethod
    def depth_of(schema: Any) -> int:
        """How many objects and arrays stand inside each other."""
        deepest, pending = 0, [(schema, 1)]
        while pending:
            value, depth = pending.pop()
            if isinstance(value, Mapping | list):
                deepest = max(deepest, depth)
                inner = value.values() if isinstance(value, Mapping) else value
                pending += ((each, depth + 1) for each in inner)
        return deepest

    def _walk(self, schema: Mapping[str, Any]) -> None:
        root = DRAFT202012.create_resource(schema)
        # An empty registry has nothing to fetch with.
        registry: Registry[Any] = Registry()
        pending = [(schema, registry.resolver_with_root(root))]
        seen: set[int] = set()
        while pending:
            contents, resolver = pending.pop()
            if id(contents) in seen:
                continue
            seen.add(id(contents))
            self.subschemas.append(contents)
            if contents is not schema and "$schema" in contents:
                self.dialects.append(str(contents["$schema"]))
                continue
            self.resolvers.append(resolver)
            self._edges[id(contents)] = [id(each) for each in _in_place(contents)]
            for each in _inner(contents):
                below = resolver.in_subresource(DRAFT202012.create_resource(each))
                pending.append((each, below))
            pending += self._targets(contents, resolver)

    def _targets(self, contents: Mapping[str, Any], resolver: Any) -> Iterator[Any]:
        for keyword in _REFERENCES:
            reference = contents.get(keyword)
            if not isinstance(reference, str):
                continue
            try:
                resolved = resolver.lookup(reference)
            except Exception:
                # Some documents within have an $id: which references lead out shows only here.
                outside = not reference.startswith("#")
                (self.external if outside else self.unresolved).append(reference)
                continue
            if isinstance(resolved.contents, Mapping):
                self._edges[id(contents)].append(id(resolved.contents))
                yield resolved.contents, resolved.resolver
            elif not isinstance(resolved.contents, bool):
                self.unresolved.append(reference)


def _inner(contents: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (each for each in DRAFT202012.subresources_of(contents) if isinstance(each, Mapping))


def _below(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    pending = [schema]
    while pending:
        contents = pending.pop()
        yield contents
        pending += _inner(contents)


def _in_place(contents: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    candidates = [contents.get(keyword) for keyword in _SINGLE]
    for keyword in _LISTS:
        candidates += contents.get(keyword, ())
    candidates += contents.get("dependentSchemas", {}).values()
    return (each for each in candidates if isinstance(each, Mapping))
