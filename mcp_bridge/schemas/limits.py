"""
Limit the work of reading a value.

The hash of a number is the number itself (modulo 2**61 - 1), and the hashes of UUIDs, Decimals,
tuples and frozen dataclasses are computed from such hashes: a caller can send thousands of values
with the same hash, each of which is compared with all others. So sets and dicts have at most
MOST_HASHED items or keys, as the schema shows, unless the hint sets another bound, and few of them
may share a hash. The hash of a string cannot be chosen.

A recursive union reads a value once for each branch, at every depth; a value of forty levels would
take practically for ever. So its steps are counted. A discriminator selects the branch at once.
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
# More than share a hash by chance, as -1 and -2 and tuples of them do.
_MOST_ALIKE: Final = 64
_SETS: Final = frozenset({"set", "frozenset"})
_DICTS: Final = frozenset({"dict", "counter", "frozendict", "ordered-dict"})
# The core types of strings or of few values, and of containers of only those.
_SAFE: Final = frozenset(
    {"str", "bytes", "bool", "none", "literal", "enum", "date", "url", "multi-host-url"}
    | {"nullable", "union", "tuple"}
)
_ANY: Final[CoreNode] = {"type": "any"}

UNCHECKABLE: Final = "cannot be checked: it is too large or too deep; send less"
# The minimum is about a tenth of a second, the rest enough for a union of many branches for each
# value; at most about a second, since a step takes up to 10 microseconds.
_LEAST_STEPS: Final = 10_000
_STEPS_EACH: Final = 16
_MOST_STEPS: Final = 100_000
_left: ContextVar[list[int] | None] = ContextVar("mcp_bridge_steps", default=None)


class TooManyStepsError(Exception):
    """Raised if a value takes too many steps. Not a ValueError, which pydantic would catch."""


def hashes_choosable(schema: CoreNode) -> bool:
    """Return whether it is a set or dict whose items or keys have hashes that can be chosen."""
    kind, keys = schema.get("type"), schema.get("keys_schema", _ANY)
    if kind in _SETS:
        hashed = schema.get("items_schema", _ANY)
    elif kind in _DICTS and keys["type"] != "any":
        hashed = keys
    else:
        # Keys of type Any remain the strings that they are in JSON.
        return False
    return any(part.get("type") not in _SAFE for part in parts(hashed))


def with_bounds(schema: CoreNode) -> CoreNode:
    """Return a core schema in which sets and dicts have a bound if hashes can be chosen."""
    inner = with_parts(schema, with_bounds)
    if hashes_choosable(schema) and inner.get("max_length") is None:
        inner["max_length"] = MOST_HASHED
    return inner


def check_hashes(values: Any) -> Any:
    """Return the values. Raises pydantic's error if too many share a hash."""
    if len(values) > _MOST_ALIKE:
        # Duplicates are found without further comparisons.
        distinct = {str(value): value for value in values}.values()
        # Counted as strings, whose own hashes cannot be chosen.
        if max(Counter(map(str, map(hash, distinct))).values()) > _MOST_ALIKE:
            text = "Input should not contain so many values with the same hash in Python"
            raise PydanticCustomError("hashes_alike", text)
    return values


@dataclass(eq=False, slots=True)
class Key:
    """A key of a dict that is being read, hashed by identity instead of by value."""

    value: object


def with_keys(found: Mapping[Key, object]) -> Mapping[object, object]:
    """Return a dict of the same class with the keys' values. Raises as check_hashes() does."""
    check_hashes([key.value for key in found])
    kind: Any = type(found)
    return kind({key.value: each for key, each in found.items()})  # type: ignore[no-any-return]


@contextmanager
def limited_steps(values: int) -> Iterator[None]:
    """Make count_step() raise TooManyStepsError after too many calls for ``values`` values."""
    token = _left.set([min(_LEAST_STEPS + _STEPS_EACH * values, _MOST_STEPS)])
    try:
        yield
    finally:
        _left.reset(token)


def count_step(value: object) -> object:
    """Return the value, and count one step if steps are limited."""
    left = _left.get()
    if left is not None:
        left[0] -= 1
        if left[0] < 0:
            raise TooManyStepsError
    return value
