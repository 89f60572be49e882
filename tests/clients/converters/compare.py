"""
Compare two JSON Schemas: which values the second refuses or takes in addition.

The comparison covers what a model reads: the types of a value with null among them, the values that
it may choose from, the members of an object, the items of an array. Bounds, formats and patterns
that a converter leaves out are enforced by the server all the same, and are not compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
DEPTH = 8
NO_ITEMS = "does not know the items"


@dataclass(frozen=True)
class Finding:
    """
    A difference of a converted schema: its path, a message, and the causes in the given schema.
    """

    path: str
    message: str
    causes: frozenset[str]


@dataclass
class View:
    """The alternatives of a schema as one: types, choices, members and items of all of them."""

    types: set[str] = field(default_factory=set)
    choices: set[str] = field(default_factory=set)
    # Types that are taken beyond the choices.
    free: set[str] = field(default_factory=set)
    members: dict[str, list[Any]] = field(default_factory=dict)
    items: list[Any] = field(default_factory=list)
    # The members that may be left out without a stated default.
    optional: set[str] = field(default_factory=set)
    causes: set[str] = field(default_factory=set)


def compare(given: dict[str, Any], made: dict[str, Any]) -> list[Finding]:
    """Return all findings of a converted schema, each place once."""
    return list(_compare([given], [made], given, made, "", frozenset(), 0))


def causes(schema: Any) -> set[str]:
    """Return the features anywhere in a schema that some converters cannot hold."""
    found: set[str] = set()
    todo = [schema]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            found |= _causes(each)
            for name in ("properties", "$defs"):
                todo += each.get(name, {}).values()
            for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
                todo += each.get(name, [])
            todo += [each[name] for name in ("items", "additionalProperties") if name in each]
    return found


def _compare(
    given: list[Any],
    made: list[Any],
    given_root: Any,
    made_root: Any,
    path: str,
    above: frozenset[str],
    depth: int,
) -> Iterator[Finding]:
    before, after = _view(given, given_root), _view(made, made_root)
    found = above | before.causes
    if path and before.members:
        found |= {"objects in objects"}
    if path.count("/") > 1 and "null" in before.types:
        found |= {"null further down"}
    for message in _differences(before, after):
        # Omitted items are reported as such.
        more = set().union(*map(causes, before.items)) if message == NO_ITEMS else set()
        yield Finding(path or "/", message, frozenset(found | more))
    if depth == DEPTH:
        return
    rest = (given_root, made_root)
    for name, schemas in before.members.items():
        if name in after.members:
            below = frozenset(found)
            if name in before.optional:
                below |= {"members without a default"}
            yield from _compare(
                schemas, after.members[name], *rest, f"{path}/{name}", below, depth + 1
            )
    if before.items and after.items:
        yield from _compare(
            before.items, after.items, *rest, f"{path}/0", frozenset(found), depth + 1
        )


def _differences(before: View, after: View) -> Iterator[str]:
    if missing := before.types - after.types - ({"integer"} if "number" in after.types else set()):
        yield f"does not take {', '.join(sorted(missing))}"
    if extra := after.types - before.types:
        yield f"takes {', '.join(sorted(extra))}"
    common = before.types & after.types
    if lost := {each for each in before.choices - after.choices if _type(each) not in after.free}:
        yield f"has lost the choices {', '.join(sorted(lost))}"
    if new := {each for each in after.choices - before.choices if _type(each) not in before.free}:
        yield f"has new choices {', '.join(sorted(new))}"
    if loose := (after.free & common) - before.free:
        yield f"does not know the choices of {', '.join(sorted(loose))}"
    if dropped := (before.members.keys() - after.members.keys()) if "object" in common else None:
        yield f"does not know the members {', '.join(sorted(dropped))}"
    if before.items and not after.items and "array" in common:
        yield NO_ITEMS


def _view(schemas: list[Any], root: Any) -> View:
    view = View()
    for schema in schemas:
        for leaf, found in _leaves(schema, root, frozenset()):
            view.causes |= found
            _add(view, leaf)
    # A choice of null repeats the type.
    view.choices.discard("null")
    view.free.discard("null")
    if len(view.types - {"null"}) > 1 or sum(1 for s in schemas for _ in _alternatives(s)) > 1:
        view.causes.add("alternatives")
    if view.types == {"null"}:
        view.causes.add("nothing but null")
    return view


def _alternatives(schema: Any) -> Iterator[Any]:
    if isinstance(schema, dict):
        for each in schema.get("anyOf", schema.get("oneOf", [])):
            if each != {"type": "null"}:
                yield each


def _leaves(
    schema: Any, root: Any, seen: frozenset[str]
) -> Iterator[tuple[dict[str, Any], set[str]]]:
    """Return the alternatives of a schema, flattened, and the causes on the way to each."""
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        return
    found = _causes(schema)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in seen:
            return
        for leaf, more in _leaves(_resolve(reference, root), root, seen | {reference}):
            yield leaf, found | more
        return
    branches = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(branches, list) and branches:
        for branch in branches:
            for leaf, more in _leaves(branch, root, seen):
                yield leaf, found | more
    else:
        yield schema, found
    if schema.get("nullable") is True:
        yield {"type": "null"}, found


def _resolve(reference: str, root: Any) -> Any:
    for part in reference.removeprefix("#").strip("/").split("/"):
        if part:
            root = root[part.replace("~1", "/").replace("~0", "~")]
    return root


def _add(view: View, leaf: dict[str, Any]) -> None:
    named = leaf.get("type")
    types = {named} if isinstance(named, str) else set(named or ())
    choices = [leaf["const"]] if "const" in leaf else leaf.get("enum")
    if isinstance(choices, list):
        # 1.0 and 1 are the same number in JavaScript.
        whole = (int(c) if isinstance(c, float) and c.is_integer() else c for c in choices)
        written = {json.dumps(each, sort_keys=True) for each in whole}
        view.choices |= written
        view.types |= {_type(each) for each in written}
        return
    if not types:
        types = {"object"} if "properties" in leaf else set(TYPES)
    view.types |= types
    view.free |= types
    if "object" in types:
        for name, schema in leaf.get("properties", {}).items():
            view.members.setdefault(name, []).append(schema)
            has_default = isinstance(schema, dict) and "default" in schema
            if name not in leaf.get("required", ()) and not has_default:
                view.optional.add(name)
        if isinstance(leaf.get("additionalProperties"), dict):
            view.members.setdefault("*", []).append(leaf["additionalProperties"])
    if "array" in types and leaf.get("items") not in (None, True, {}):
        view.items.append(leaf["items"])


def _type(written: str) -> str:
    value = json.loads(written)
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else kinds.get(type(value), "object")


def _causes(schema: dict[str, Any]) -> set[str]:
    """Return the features of this very schema that some converters cannot hold."""
    found = set()
    if "$ref" in schema:
        found.add("recursion")
    kind = schema.get("type")
    is_object = "object" in (kind if isinstance(kind, list) else [kind])
    # If additionalProperties: false is not sent, the members imply it.
    is_open = schema.get("additionalProperties", "properties" not in schema) is not False
    if is_object and is_open:
        found.add("open objects")
    if "prefixItems" in schema:
        found.add("tuples")
    if not schema.keys() & {"type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"}:
        found.add("anything")
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    found |= schema.keys() & {"const", "oneOf"}
    if any(not isinstance(value, str) for value in values if value is not None):
        found.add("choices that are no strings")
    if any(isinstance(value, dict | list) for value in values):
        found.add("choices that are objects or arrays")
    return found
