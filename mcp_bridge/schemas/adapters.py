"""Where the engine learns of types that pydantic cannot read, which a layer above knows."""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

Side = Literal["parameter", "result"]
# The containers whose items may be of an adapted type.
_CONTAINERS: Final = frozenset(
    {list, tuple, set, frozenset, dict, collections.abc.Sequence, collections.abc.Iterable}
    | {collections.abc.Mapping, collections.abc.Set, collections.abc.Collection}
)


class Adapter:
    """
    What the engine does with one kind of types: subclass it, and give an instance to register().

    Every method may leave a type to the next adapter, as it does here.
    """

    def parameter(self, hint: Any, metadata: tuple[Any, ...]) -> Any | None:
        """
        A hint that pydantic reads in place of ``hint``, or None to leave it as it is.

        ``metadata`` is what stands beside the hint in its ``Annotated``, and has to be kept.
        """
        return None

    def result(self, hint: Any, metadata: tuple[Any, ...]) -> Any | None:
        """The same for what a function returns."""
        return None

    def items(self, value: Any) -> Iterable[Any] | None:
        """What a result holds that is a collection and no list, or None for any other."""
        return None

    def has_members(self, value: Any) -> bool:
        """Whether a result is an object whose attributes are the members of a declared shape."""
        return False


ADAPTERS: Final[list[Adapter]] = []


def register(adapter: Adapter) -> None:
    """Have an adapter asked, after those that are registered, and once for each class."""
    if not any(type(each) is type(adapter) for each in ADAPTERS):
        ADAPTERS.append(adapter)


def adapted(hint: Any, side: Side = "parameter") -> Any:
    """A hint with every adapted type in it replaced, in unions and containers too."""
    annotated = get_origin(hint) is Annotated
    inner, *metadata = get_args(hint) if annotated else (hint,)
    for adapter in ADAPTERS:
        found = getattr(adapter, side)(inner, tuple(metadata))
        if found is not None:
            return found
    return within(hint, lambda each: adapted(each, side))


def within(hint: Any, change: Callable[[Any], Any]) -> Any:
    """A union or container with what it holds changed; the hint itself where nothing is."""
    annotated = get_origin(hint) is Annotated
    inner, *metadata = get_args(hint) if annotated else (hint,)
    origin = get_origin(inner)
    union = origin in (typing.Union, types.UnionType)
    if not union and origin not in _CONTAINERS:
        return hint
    before = get_args(inner)
    after = tuple(map(change, before))
    if all(one is other for one, other in zip(before, after, strict=True)):
        return hint
    rebuilt: Any = typing.Union[after] if union else origin[after]  # noqa: UP007
    return Annotated[(rebuilt, *metadata)] if metadata else rebuilt


def note(hint: Any) -> str:
    """The description that a hint brings along, by itself or as a branch of a union."""
    if get_origin(hint) in (typing.Union, types.UnionType):
        return next(filter(None, map(note, get_args(hint))), "")
    metadata = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    told = [each.description for each in metadata if isinstance(each, FieldInfo)]
    return next(filter(None, reversed(told)), None) or ""
