"""Adapters: a layer above teaches the schemas types that pydantic cannot read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal, LiteralString

from mcp_bridge.schemas.hints import TypeHint, annotate, change_arguments, split_annotated

Side = Literal["parameter", "result"]


class Adapter:
    """
    One kind of types as parameters and results: subclass it, and pass an instance to register().

    Each method leaves a type to the next adapter by returning None (or False), as it does here.
    """

    def parameter(self, hint: TypeHint, metadata: tuple[Any, ...]) -> TypeHint | None:
        """
        Return a hint that pydantic reads in place of ``hint``, with the ``metadata`` around it.

        Raises TypeError for a type that cannot be a parameter, with what to write instead.
        """
        return None

    def result(self, hint: TypeHint, metadata: tuple[Any, ...]) -> TypeHint | None:
        """Do the same for a return hint."""
        return None

    def items(self, value: Any) -> Iterable[object] | None:
        """Return the items of a result that is a collection but no list; None for any other."""
        return None

    def has_members(self, value: object) -> bool:
        """Return whether the attributes of a result are the members that its hint declares."""
        return False


ADAPTERS: Final[list[Adapter]] = []
# Exceptions by which a type cannot be read now, and may be later: no errors of the hint.
TRANSIENT: Final[set[type[Exception]]] = set()


# The list that collects notes on the hints being adapted, if there is one.
_NOTES: Final[ContextVar[list[str] | None]] = ContextVar("mcp_bridge_notes", default=None)


@contextmanager
def collected_notes(notes: list[str]) -> Iterator[None]:
    """Collect the notes of adapters in a list, each once, while the context is open."""
    token = _NOTES.set(notes)
    try:
        yield
    finally:
        _NOTES.reset(token)


def note(text: str) -> None:
    """Note a gap in the schema of the hint being adapted, for a warning of the checks."""
    notes = _NOTES.get()
    if notes is not None and text not in notes:
        notes.append(text)


def register(adapter: Adapter) -> None:
    """Ask an adapter after those registered before; a second one of a class is ignored."""
    if not any(type(each) is type(adapter) for each in ADAPTERS):
        ADAPTERS.append(adapter)


def adapt(hint: TypeHint, side: Side) -> TypeHint:
    """Return a hint with every adapted type in it replaced, in unions and containers too."""
    inner, metadata = split_annotated(hint)
    if inner is LiteralString:
        # At run time a literal string cannot be told from any other.
        return annotate(str, *metadata)
    for adapter in ADAPTERS:
        found = getattr(adapter, side)(inner, metadata)
        if found is not None:
            return found
    return change_arguments(hint, lambda each: adapt(each, side))
