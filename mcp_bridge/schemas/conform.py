"""Read a result of types that only an adapter knows into the shape that its hint declares."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Collection, Mapping
from typing import Any, get_args

from pydantic import ConfigDict
from pydantic_core import SchemaValidator

from mcp_bridge.schemas.adapters import ADAPTERS
from mcp_bridge.schemas.hints import UNIONS, TypeHint, members_of, origin_of, without_metadata
from mcp_bridge.schemas.members import core_schema_of
from mcp_bridge.schemas.strictness import plain_validator

_ABSENT = object()


def conform_to_hint(hint: TypeHint, value: object) -> object:
    """
    Return the value with every object that an adapter knows read into the shape of its hint.

    Members are read by attribute, and collections are listed. Anything else stays the same object.
    Raises pydantic's ValidationError where an object lacks a member of the shape.
    """
    hint = without_metadata(hint)
    for adapter in ADAPTERS:
        items = adapter.items(value)
        if items is not None:
            value = list(items)
            break
    if origin_of(hint) in UNIONS:
        return _as_branch(get_args(hint), value)
    if isinstance(value, list | tuple | set | frozenset):
        return _with_items(hint, value)
    members = members_of(hint) if isinstance(hint, type) else None
    if members is not None and any(each.has_members(value) for each in ADAPTERS):
        return _read(hint, members, value)
    if isinstance(value, dict):
        item = get_args(hint)[1] if len(get_args(hint)) == 2 else Any
        hints = dict.fromkeys(value, item) if members is None else members
        return {k: conform_to_hint(hints[k], v) if k in hints else v for k, v in value.items()}
    return value if members is None else _with_members(members, value)


def _as_branch(branches: Collection[TypeHint], value: object) -> object:
    """Return the value as the first branch of a union that can read it; raise the last error."""
    error: Exception | None = None
    for branch in branches:
        try:
            read = conform_to_hint(branch, value)
        except ValueError as exception:
            error = exception
            continue
        if read is not value:
            return read
    if error is not None:
        raise error
    return value


def _with_items(hint: TypeHint, value: Collection[object]) -> Collection[object]:
    arguments = get_args(hint) or (Any,)
    if origin_of(hint) is not tuple or ... in arguments:
        arguments = (arguments[0],) * len(value)
    read = [conform_to_hint(*pair) for pair in zip(arguments, value, strict=False)]
    return value if all(map(operator.is_, read, value)) else read


def _read(hint: type, members: Mapping[str, TypeHint], value: object) -> object:
    """Make an object of a declared type from another object's attributes."""
    found = {}
    for name, member in members.items():
        given = getattr(value, name, _ABSENT)
        if given is _ABSENT and hasattr(type(value), name):
            # Django raises an AttributeError for the empty end of a one-to-one relation.
            given = None
        if given is not _ABSENT:
            found[name] = conform_to_hint(member, given)
    return _reader(hint).validate_python(found, by_alias=True, by_name=True)


def _with_members(members: Mapping[str, TypeHint], value: object) -> object:
    """Return the value, or a copy of it where one of its members is read into its shape."""
    before = {name: getattr(value, name, _ABSENT) for name in members}
    before = {name: each for name, each in before.items() if each is not _ABSENT}
    after = {name: conform_to_hint(members[name], each) for name, each in before.items()}
    changed = {name: each for name, each in after.items() if each is not before[name]}
    if not changed:
        return value
    if isinstance(value, tuple):
        return type(value)(**after)
    changed_copy = copy.copy(value)
    for name, each in changed.items():
        object.__setattr__(changed_copy, name, each)
    return changed_copy


@functools.lru_cache(maxsize=256)
def _reader(hint: type) -> SchemaValidator:
    return plain_validator(core_schema_of(hint, ConfigDict(), "result"))
