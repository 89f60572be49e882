"""
Lists in serializers whose every item asks the database: related fields, and what has to be unique.

Django REST framework looks each item up by a query of its own. So such a list has at most
MOST_LOOKED_UP items unless its author says otherwise, which the schema tells, and all of them in
one argument have no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from rest_framework import serializers

from mcp_bridge.schemas.django.hints import MOST_LOOKED_UP, FieldError

# Counts the items in the value of a field.
Counter: TypeAlias = Callable[[object], int]


def too_many(found: int) -> FieldError:
    """Return the error of a value whose lists have so many items together."""
    text = (
        f"The lists in it have {found:,} items together that are looked up one by one, and at most "
        f"{MOST_LOOKED_UP:,} are taken: send the rest in further calls"
    )
    return "too_many", text, ()


def counter(field: Any) -> Counter | None:
    """
    Return what counts the items of lists that are looked up; None for a field without such lists.

    Of a list that has a bound of its own the author has accounted for the items: it counts as
    much as the largest of them.
    """
    if field.read_only:
        return None
    child = getattr(field, "child", None) or getattr(field, "child_relation", None)
    if child is not None:
        return _of_items(child, getattr(field, "max_length", None) is not None)
    members = {name: found for name, each in _members(field) if (found := counter(each))}
    if not members:
        return None

    def count(value: object) -> int:
        sent = value if isinstance(value, dict) else {}
        return sum(found(sent[name]) for name, found in members.items() if name in sent)

    return count


def _of_items(child: Any, is_bounded: bool) -> Counter | None:
    inner, is_looked_up = counter(child), _is_looked_up(child)
    if inner is None and not is_looked_up:
        return None

    def count(value: object) -> int:
        items = value.values() if isinstance(value, dict) else value
        if not isinstance(items, list | type({}.values())):
            return 0
        within = [] if inner is None else list(map(inner, items))
        if is_bounded:
            return max(within, default=0)
        return sum(within) + (len(items) if is_looked_up else 0)

    return count


def _is_looked_up(field: Any) -> bool:
    """Return whether a value asks the database, apart from lists in it, which count themselves."""
    if field.read_only:
        return False
    # Validators of unique values and of those for a date have one.
    is_compared = any(hasattr(each, "queryset") for each in field.validators)
    related = isinstance(field, serializers.RelatedField)
    return related or is_compared or any(_is_looked_up(each) for _, each in _members(field))


def _members(field: Any) -> list[tuple[str, Any]]:
    return list(field.fields.items()) if isinstance(field, serializers.Serializer) else []
