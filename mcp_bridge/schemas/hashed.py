"""
Values that Python hashes: the items of sets, and the keys of dicts.

The hash of a number is the number itself (modulo 2**61 - 1), and those of UUIDs, Decimals, tuples
and frozen dataclasses are made of such: a caller can choose thousands that share one hash, each of
which is then compared with all others. So there are at most MOST_HASHED of them unless the hint
says otherwise, which the schema tells, and few of them may share a hash. The hash of a text is one
that nobody can choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from pydantic_core import PydanticCustomError

from mcp_bridge.schemas.core_schemas import CoreNode, parts, with_parts

T = TypeVar("T", bound=list[Any])

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


def hashes_choosable(schema: CoreNode) -> bool:
    """Return whether it is of a set or a dict, of items or keys whose hashes can be chosen."""
    kind = schema.get("type")
    if kind in _SETS:
        return _is_choosable(schema.get("items_schema", _ANY))
    keys = schema.get("keys_schema", _ANY)
    # Keys of any type are the texts that they are in JSON.
    return kind in _DICTS and keys["type"] != "any" and _is_choosable(keys)


def _is_choosable(schema: CoreNode) -> bool:
    return any(part.get("type") not in _SAFE for part in parts(schema))


def with_bounds(schema: CoreNode) -> CoreNode:
    """Return a core schema in which sets and dicts have a bound if hashes can be chosen."""
    inner = with_parts(schema, with_bounds)
    if hashes_choosable(schema) and inner.get("max_length") is None:
        inner["max_length"] = MOST_HASHED
    return inner


def check_hashes(values: T) -> T:
    """Return the values. Raises pydantic's error where so many share a hash that it costs time."""
    # An item that is sent twice shares it too; those are few, and found at once.
    if _most_alike(values) > _MOST_ALIKE:
        distinct = {str(value): value for value in values}
        if _most_alike(distinct.values()) > _MOST_ALIKE:
            text = "Input should not hold so many values that share a hash in Python"
            raise PydanticCustomError("hashes_alike", text)
    return values


def _most_alike(values: Iterable[object]) -> int:
    # Counted by texts, whose own hashes nobody can choose.
    return max(Counter(map(str, map(hash, values))).values(), default=0)


class Key:
    """The key of a dict that is being read, which is found by what it is, and not by its value."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def with_keys(found: Mapping[Key, object]) -> Mapping[object, object]:
    """Return a dict of the same class with the values of the keys. Raises as check_hashes()."""
    check_hashes([key.value for key in found])
    kind: Any = type(found)
    result: Mapping[object, object] = kind({key.value: each for key, each in found.items()})
    return result
