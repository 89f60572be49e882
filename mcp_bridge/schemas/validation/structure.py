"""The size, the depth and the circles of a JSON Schema, which decide whether it can be enforced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final

from mcp_bridge.schemas.walk import SchemaDocument, subschemas

# Keywords whose subschemas apply to the very value that the schema itself applies to.
_IN_PLACE: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"}
)


def size_of(schema: object) -> int:
    """Return the number of bytes of a JSON value, written as short as it can be."""
    return len(json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode())


def depth_of(schema: object) -> int:
    """Return how many objects and arrays of a JSON value stand inside each other."""
    deepest = 0
    pending = [(schema, 1)]
    while pending:
        value, depth = pending.pop()
        if isinstance(value, Mapping | list):
            deepest = max(deepest, depth)
            inner = value.values() if isinstance(value, Mapping) else value
            pending += ((each, depth + 1) for each in inner)
    return deepest


def is_circular(document: SchemaDocument) -> bool:
    """Return whether a schema leads back to itself without going into the value it applies to."""
    edges: dict[int, list[int]] = {}
    for schema in document.subschemas:
        in_place = [each.schema for each in subschemas(schema) if each.keyword in _IN_PLACE]
        edges[id(schema)] = [id(each) for each in (*in_place, *document.targets(schema).values())]
    # Booleans, whose ids are all the same, lead nowhere.
    try:
        TopologicalSorter(edges).prepare()
    except CycleError:
        return True
    return False
