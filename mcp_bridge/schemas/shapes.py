"""A result of types that only an adapter knows, read into the shape that its hint declares."""

from __future__ import annotations

import copy
import functools
import operator
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any, get_args, get_origin

from pydantic import ConfigDict
from pydantic_core import SchemaValidator

from mcp_bridge.schemas.adapters import ADAPTERS
from mcp_bridge.schemas.members import core_schema_of, members_of, without_metadata

_ABSENT = object()


def conform_to_hint(hint: Any, value: Any) -> Any:
    """
    The value with every adapted object in it as its hint declares it.

    Members are read by attribute, and collections are listed. What no adapter knows stays the same
    object. Raises pydantic's ValidationError where an object does not have what the shape asks for.
    """
    hint = without_metadata(hint)
    items = next(filter(_is_given, (each.items(value) for each in ADAPTERS)), None)
    if items is not None:
        value = list(items)
    if get_origin(hint) in (typing.Union, types.UnionType):
        return _as_branch(get_args(hint), value)
    if isinstance(value, list | tuple | set | frozenset):
        return _listed(hint, value)
    members = members_of(hint) if isinstance(hint, type) else None
    if members is None:
        return _mapped(hint, value) if isinstance(value, dict) else value
    if any(each.has_members(value) for each in ADAPTERS):
        return _read(hint, members, value)
    return _with_members(members, value)


def _is_given(value: Any) -> bool:
    return value is not None


def _as_branch(branches: Collection[Any], value: Any) -> Any:
    """The value as the first branch of a union that it can be read as."""
    failure: Exception | None = None
    for branch in branches:
        try:
            read = conform_to_hint(branch, value)
        except ValueError as exception:
            failure = exception
            continue
        if read is not value:
            return read
    if failure is not None:
        raise failure
    return value


def _listed(hint: Any, value: Any) -> Any:
    arguments = get_args(hint) or (Any,)
    if get_origin(hint) is not tuple or ... in arguments:
        arguments = (arguments[0],) * len(value)
    read = [conform_to_hint(*pair) for pair in zip(arguments, value, strict=False)]
    return value if all(map(operator.is_, read, value)) else read


def _mapped(hint: Any, value: dict[Any, Any]) -> dict[Any, Any]:
    item = get_args(hint)[1] if len(get_args(hint)) == 2 else Any
    return {key: conform_to_hint(item, each) for key, each in value.items()}


def _read(hint: Any, members: Mapping[str, Any], value: Any) -> Any:
    """An object of a declared type from another object's attributes."""
    found = {}
    for name, member in members.items():
        given = getattr(value, name, _ABSENT)
        if given is _ABSENT and hasattr(type(value), name):
            # What Django raises for the empty end of a one-to-one relation is an AttributeError.
            given = None
        if given is not _ABSENT:
            found[name] = conform_to_hint(member, given)
    return _reader(hint).validate_python(found, by_alias=True, by_name=True)


def _with_members(members: Mapping[str, Any], value: Any) -> Any:
    """The value, or a copy of it where one of its members is read into its shape."""
    if isinstance(value, dict):
        return {
            key: conform_to_hint(members[key], each) if key in members else each
            for key, each in value.items()
        }
    before = {name: getattr(value, name, _ABSENT) for name in members}
    changed = {
        name: after
        for name, member in members.items()
        if before[name] is not _ABSENT
        and (after := conform_to_hint(member, before[name])) is not before[name]
    }
    if not changed:
        return value
    if isinstance(value, tuple):
        return type(value)(**{**before, **changed})
    changed_copy = copy.copy(value)
    for name, after in changed.items():
        object.__setattr__(changed_copy, name, after)
    return changed_copy


@functools.lru_cache(maxsize=256)
def _reader(hint: Any) -> SchemaValidator:
    schema = core_schema_of(hint, ConfigDict(), "result")
    # Prebuilt validators of nested models would not know what adapters replaced.
    return SchemaValidator(schema, _use_prebuilt=False)
