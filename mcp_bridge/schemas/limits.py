"""
Bounds on the work that reading a value costs.

The hash of a number is the number itself (modulo 2**61 - 1), and those of UUIDs, Decimals, tuples
and frozen dataclasses are made of such: a caller can choose thousands that share one hash, each of
which is then compared with all others. So the items of a set and the keys of a dict are at most
MOST_HASHED unless the hint says otherwise, which the schema tells, and few of them may share a
hash. The hash of a text is one that nobody can choose.

A union that may contain itself reads a value once for each of its branches, at every depth: one
that is forty levels deep would take longer than anybody waits. So its steps are counted. A
discriminator tells which branch is meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import PydanticCustomError

from mcp_bridge.schemas.core_schemas import CoreNode, parts, with_parts

MOST_HASHED: Final = 10_000
# More than those that share a hash by chance: -1 and -2 do, and so do tuples of them.
_MOST_ALIKE: Final = 64
_SETS: Final = frozenset({"set", "frozenset"})
_DICTS: Final = frozenset({"dict", "counter", "frozendict", "ordered-dict"})
# The core types of values that are texts or few, and those of what holds them alone.
_SAFE: Final = frozenset(
    {"str", "bytes", "bool", "none", "literal", "enum", "date", "url", "multi-host-url"}
    | {"nullable", "union", "tuple"}
)
_ANY: Final[CoreNode] = {"type": "any"}

UNCHECKABLE: Final = "cannot be checked: it is too large or too deep; send less"
# About a tenth of a second; what a union of many branches needs for each value; and at most about
# a second, since a step takes up to 10 microseconds.
_LEAST_STEPS: Final = 10_000
_STEPS_EACH: Final = 16
_MOST_STEPS: Final = 100_000
_left: ContextVar[list[int] | None] = ContextVar("mcp_bridge_steps", default=None)


class TooManyStepsError(Exception):
    """A value cannot be read in the steps that there are. No ValueError, which pydantic keeps."""


def hashes_choosable(schema: CoreNode) -> bool:
    """Return whether it is of a set or a dict, of items or keys whose hashes can be chosen."""
    kind, keys = schema.get("type"), schema.get("keys_schema", _ANY)
    if kind in _SETS:
        hashed = schema.get("items_schema", _ANY)
    elif kind in _DICTS and keys["type"] != "any":
        hashed = keys
    else:
        # Keys of any type are the texts that they are in JSON.
        return False
    return any(part.get("type") not in _SAFE for part in parts(hashed))


def with_bounds(schema: CoreNode) -> CoreNode:
    """Return a core schema in which sets and dicts have a bound if hashes can be chosen."""
    inner = with_parts(schema, with_bounds)
    if hashes_choosable(schema) and inner.get("max_length") is None:
        inner["max_length"] = MOST_HASHED
    return inner


def check_hashes(values: Any) -> Any:
    """Return the values. Raises pydantic's error where so many share a hash that it costs time."""
    if len(values) > _MOST_ALIKE:
        # An item that is sent twice is found at once.
        distinct = {str(value): value for value in values}.values()
        # Counted by texts, whose own hashes nobody can choose.
        if max(Counter(map(str, map(hash, distinct))).values()) > _MOST_ALIKE:
            text = "Input should not hold so many values that share a hash in Python"
            raise PydanticCustomError("hashes_alike", text)
    return values


@dataclass(eq=False, slots=True)
class Key:
    """The key of a dict that is being read, which is found by what it is, and not by its value."""

    value: object


def with_keys(found: Mapping[Key, object]) -> Mapping[object, object]:
    """Return a dict of the same class with the values of the keys. Raises as check_hashes()."""
    check_hashes([key.value for key in found])
    kind: Any = type(found)
    result: Mapping[object, object] = kind({key.value: each for key, each in found.items()})
    return result


@contextmanager
def limited_steps(values: int) -> Iterator[None]:
    """Have count_step() raise TooManyStepsError once it was called too often for so many values."""
    token = _left.set([min(_LEAST_STEPS + _STEPS_EACH * values, _MOST_STEPS)])
    try:
        yield
    finally:
        _left.reset(token)


def count_step(value: object) -> object:
    """Return the value, and count one step where steps are limited."""
    left = _left.get()
    if left is not None:
        left[0] -= 1
        if left[0] < 0:
            raise TooManyStepsError
    return value
