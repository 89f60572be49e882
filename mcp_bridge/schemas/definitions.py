"""Core schemas put together of several, each with definitions of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp_bridge.schemas.strictness import with_parts


def gathered(schema: Any) -> Any:
    """
    The same core schema with all definitions at its root, where each may stand but once.

    The parts that hold them were made by themselves, of types that may be the same.
    """
    found: dict[str, Any] = {}
    root = _without(schema, found)
    if not found:
        return root
    return {"type": "definitions", "schema": root, "definitions": list(found.values())}


def at_root(schema: Any, change: Callable[[Any], Any]) -> Any:
    """A core schema with its root changed, beside the same definitions."""
    if schema["type"] == "definitions":
        return {**schema, "schema": change(schema["schema"])}
    return change(schema)


def _without(schema: Any, found: dict[str, Any]) -> Any:
    """The schema without its definitions, which are put into ``found`` by their names."""
    if isinstance(schema, list | tuple):
        return type(schema)(_without(each, found) for each in schema)
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") != "definitions":
        return with_parts(schema, lambda part: _without(part, found))
    for each in schema["definitions"]:
        if each["ref"] not in found:
            # Whatever it holds may name it.
            found[each["ref"]] = each
            found[each["ref"]] = _without(each, found)
    inner = _without(schema["schema"], found)
    beside = {**inner.get("metadata", {}), **schema.get("metadata", {})}
    return {**inner, "metadata": beside} if beside else inner
