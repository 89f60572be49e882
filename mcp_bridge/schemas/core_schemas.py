"""Walk and rewrite core schemas, the dictionaries of ``pydantic_core.core_schema``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

# A core schema or a part of one, such as a field. pydantic's own type is a union of TypedDicts,
# which has no name for a rewritten copy.
CoreNode: TypeAlias = dict[str, Any]

# Where a core schema holds values, which may look like schemas, and not schemas.
_VALUES: Final = frozenset(
    {"cls", "config", "default", "expected", "function", "members", "metadata", "ref"}
    | {"serialization"}
)
# Where it holds schemas by names (of members, of tags), which may be any word.
_NAMED: Final = frozenset({"fields", "choices"})
_HOLDERS: Final = (dict, list, tuple)


def parts(schema: object) -> Iterator[CoreNode]:
    """Yield a core schema and all schemas and fields inside it, in no particular order."""
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            for key, value in each.items():
                if key in _NAMED and isinstance(value, dict):
                    waiting.extend(value.values())
                elif isinstance(value, _HOLDERS) and key not in _VALUES:
                    waiting.append(value)
        elif isinstance(each, _HOLDERS):
            waiting.extend(each)


def with_parts(schema: CoreNode, change: Callable[[CoreNode], CoreNode]) -> CoreNode:
    """Return a core schema with ``change`` applied to each schema and field directly inside it."""
    changed: CoreNode = {}
    for key, value in schema.items():
        if not isinstance(value, _HOLDERS) or key in _VALUES:
            changed[key] = value
        elif key in _NAMED and isinstance(value, dict):
            changed[key] = {name: _changed(each, change) for name, each in value.items()}
        else:
            changed[key] = _changed(value, change)
    return changed


def _changed(value: object, change: Callable[[CoreNode], CoreNode]) -> object:
    if isinstance(value, dict):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(_changed(each, change) for each in value)
    return value


def copy_schema(schema: CoreNode) -> CoreNode:
    """Return a core schema that shares nothing with the given one but its values."""
    return with_parts(schema, copy_schema)


def change_root(schema: CoreNode, change: Callable[[CoreNode], CoreNode]) -> CoreNode:
    """Return a core schema with its root changed, beside the same definitions."""
    if schema["type"] == "definitions":
        return {**schema, "schema": change(schema["schema"])}
    return change(schema)


def gather_definitions(schema: CoreNode) -> CoreNode:
    """
    Return the same core schema with all definitions at its root, each of them once.

    The parts that hold definitions were made one by one, of types that may be the same.
    """
    found: dict[str, CoreNode] = {}

    def without_definitions(part: CoreNode) -> CoreNode:
        if part.get("type") != "definitions":
            return with_parts(part, without_definitions)
        for each in part["definitions"]:
            if each["ref"] not in found:
                # Known before its parts are looked at, since they may refer to it.
                found[each["ref"]] = each
                found[each["ref"]] = without_definitions(each)
        inner = without_definitions(part["schema"])
        metadata = {**inner.get("metadata", {}), **part.get("metadata", {})}
        return {**inner, "metadata": metadata} if metadata else inner

    root = without_definitions(schema)
    if not found:
        return root
    return {"type": "definitions", "schema": root, "definitions": list(found.values())}
