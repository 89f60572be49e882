"""Split, rebuild and adapt type hints, for types that pydantic cannot read."""

from __future__ import annotations

import collections.abc
import functools
import types
import typing
from collections.abc import Callable, Hashable, Iterable
from contextvars import ContextVar
from dataclasses import is_dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typing_extensions import get_type_hints, is_typeddict

# A type hint: a class, a union, an alias, a special form. They do not share a type, and are read
# with origin_of(), get_args() and getattr().
TypeHint: TypeAlias = Any

Side = Literal["parameter", "result"]
UNIONS: Final = (typing.Union, types.UnionType)
# Typed like this because it may return any class.
origin_of: Final[Callable[[TypeHint], TypeHint]] = typing.get_origin
# Generics whose arguments may be replaced, since items may be of an adapted type.
_CONTAINERS: Final = frozenset(
    {list, tuple, set, frozenset, dict, collections.abc.Sequence, collections.abc.Iterable}
    | {collections.abc.Mapping, collections.abc.Set, collections.abc.Collection}
)


def split_annotated(hint: TypeHint) -> tuple[TypeHint, tuple[Any, ...]]:
    """Return the hint inside an ``Annotated`` and its metadata, or any other hint with ()."""
    if origin_of(hint) is not Annotated:
        return hint, ()
    inner, *metadata = get_args(hint)
    return inner, tuple(metadata)


def annotate(hint: TypeHint, *metadata: object) -> TypeHint:
    """Return the hint with metadata in an ``Annotated``, or the hint itself without metadata."""
    return Annotated[(hint, *metadata)] if metadata else hint


def without_metadata(hint: TypeHint) -> TypeHint:
    """Return the hint under Annotated, type aliases and NewType."""
    if origin_of(hint) is Annotated:
        return without_metadata(get_args(hint)[0])
    inner = getattr(hint, "__value__", getattr(hint, "__supertype__", hint))
    return hint if inner is hint else without_metadata(inner)


def identity(hint: TypeHint) -> Hashable:
    """
    Return a key that two hints share only if they are read alike, while both are alive.

    Equality is not enough: in Python, ``int | str`` equals ``str | int``, as do literals in another
    order, and bounds of 1 and True.
    """
    origin, arguments = origin_of(hint), get_args(hint)
    if isinstance(hint, list):
        # The parameters of a Callable are a new list each time.
        return tuple(map(identity, hint))
    if origin is None or not arguments:
        return id(hint)
    if origin is Literal:
        known = tuple(each if isinstance(each, str) else id(each) for each in arguments)
        return origin, known, tuple(map(type, arguments))
    if origin is Annotated:
        return origin, identity(arguments[0]), tuple(map(id, arguments[1:]))
    return type(hint), id(origin), tuple(map(identity, arguments))


def description_in(hint: TypeHint) -> str:
    """Return the description in the metadata of a hint, or of a branch of a union."""
    if origin_of(hint) in UNIONS:
        return next(filter(None, map(description_in, get_args(hint))), "")
    texts = [each.description for each in split_annotated(hint)[1] if isinstance(each, FieldInfo)]
    return next(filter(None, reversed(texts)), None) or ""


@functools.lru_cache(maxsize=256)
def members_of(kind: type) -> dict[str, TypeHint] | None:
    """Return the hints of a class's declared members by name; None if it declares none."""
    if issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    if is_dataclass(kind) or is_typeddict(kind) or hasattr(kind, "_fields"):
        try:
            return dict(get_type_hints(kind))
        except NameError:
            # pydantic may resolve the name, such as a class inside a function, or reports it.
            return None
    return None


class Adapter:
    """Support for a kind of types: pass an instance of a subclass to register()."""

    def adapted(self, hint: TypeHint, metadata: tuple[Any, ...], side: Side) -> TypeHint | None:
        """
        Return a replacement for ``hint`` with its ``metadata`` that pydantic can read.

        None leaves it to the next adapter. Raises TypeError for a type that is not supported on
        this side, with the alternative to use.
        """
        return None

    def items(self, value: Any) -> Iterable[object] | None:
        """Return the items of a result that is a collection but not a list; None for others."""
        return None

    def has_members(self, value: object) -> bool:
        """Return whether the result's attributes are the members declared by its hint."""
        return False

    def query_parameters(self, view: Any) -> Iterable[dict[str, Any]]:
        """Return OpenAPI parameters of a REST view that are not described elsewhere."""
        return ()


ADAPTERS: Final[list[Adapter]] = []
# Exceptions for a type that cannot be read yet but may be later; not errors of the hint.
TRANSIENT: Final[set[type[Exception]]] = set()


# The list that collects notes on the hints being adapted, if there is one.
NOTES: Final[ContextVar[list[str] | None]] = ContextVar("mcp_bridge_notes", default=None)


def note(text: str) -> None:
    """Record a gap in the schema of the hint being adapted, for a check warning."""
    notes = NOTES.get()
    if notes is not None and text not in notes:
        notes.append(text)


def register(adapter: Adapter) -> None:
    """Add an adapter after those registered before; a second one of a class is ignored."""
    if not any(type(each) is type(adapter) for each in ADAPTERS):
        ADAPTERS.append(adapter)


def adapt(hint: TypeHint, side: Side) -> TypeHint:
    """Return a hint with every adapted type in it replaced, in unions and containers too."""
    inner, metadata = split_annotated(hint)
    if inner is typing.LiteralString:
        # At run time, a literal string cannot be distinguished from others.
        return annotate(str, *metadata)
    for adapter in ADAPTERS:
        found = adapter.adapted(inner, metadata, side)
        if found is not None:
            return found
    origin, before = origin_of(inner), get_args(inner)
    if origin not in UNIONS and origin not in _CONTAINERS:
        return hint
    after = tuple(adapt(each, side) for each in before)
    if all(one is other for one, other in zip(before, after, strict=True)):
        return hint
    return annotate(typing.Union[after] if origin in UNIONS else origin[after], *metadata)  # noqa: UP007
