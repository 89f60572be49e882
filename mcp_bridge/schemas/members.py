"""
Adapted types as members of classes, and under type aliases, at any depth of a hint.

A hint inside these cannot be replaced. So pydantic reads such a member as an instance of its class
(``arbitrary_types_allowed``), and that part of the core schema is replaced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import is_dataclass
from types import GenericAlias
from typing import Any, ClassVar, Final, TypeAlias, cast

from annotated_types import Len
from pydantic import ConfigDict, TypeAdapter

from mcp_bridge.schemas.adapters import Side, adapt
from mcp_bridge.schemas.core_schemas import (
    CoreNode,
    change_root,
    copy_schema,
    gather_definitions,
    parts,
    with_parts,
)
from mcp_bridge.schemas.generator import DESCRIPTION
from mcp_bridge.schemas.hints import (
    TypeHint,
    annotate,
    change_arguments,
    description_in,
    without_metadata,
)

# The key in a core schema's metadata for the metadata of the Annotated that held the class.
BESIDE: Final = "mcp_bridge_beside"

_Adapt: TypeAlias = Callable[[TypeHint], TypeHint]


def with_adapted(
    build: Callable[[ConfigDict], CoreNode], config: ConfigDict, side: Side
) -> CoreNode:
    """
    Return the core schema that ``build`` makes with a config, adapted types at any depth replaced.

    Raises any exception of pydantic and of adapters.
    """
    schema = build(ConfigDict(**{**config, "arbitrary_types_allowed": True}))
    # Equal hints are adapted once, since adapters may make classes of their own.
    adapted = functools.cache(functools.partial(adapt, side=side))
    hints = [hint for hint in map(_hint, parts(schema)) if hint is not None]
    if any(adapted(hint) != hint for hint in hints):
        return gather_definitions(_swap_adapted(schema, adapted))
    if any(each.get("type") == "is-instance" for each in parts(schema)):
        # Perhaps of a class that pydantic cannot read: then it says so.
        return build(config)
    return schema


def core_schema_of(hint: TypeHint, config: ConfigDict, side: Side) -> CoreNode:
    """Return the core schema of a hint that may hold adapted types, as with_adapted() does."""

    def build(config: ConfigDict) -> CoreNode:
        reused = reuse(hint, config)
        if isinstance(reused, type) and issubclass(reused, _ReusedDataclass):
            return reused.schema
        return _build(reused, config)

    return with_adapted(build, config, side)


def _build(hint: TypeHint, config: ConfigDict) -> CoreNode:
    # In a tuple, since a class with a config of its own takes no other from a TypeAdapter.
    adapter = TypeAdapter(tuple[hint], config=config)
    # Where a name is not known, this says which; else it does nothing.
    adapter.rebuild()
    return change_root(cast(CoreNode, adapter.core_schema), lambda root: root["items_schema"][0])


class _ReusedDataclass:
    """A class that pydantic reads in place of a dataclass, whose core schema tools then share."""

    schema: ClassVar[CoreNode]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreNode:
        # pydantic changes the schema that it is given.
        return copy_schema(cls.schema)


def reuse(hint: TypeHint, config: ConfigDict) -> TypeHint:
    """Return the hint with a class that shares its core schema in place of each dataclass."""
    own = hasattr(hint, "__get_pydantic_core_schema__")
    if isinstance(hint, type) and is_dataclass(hint) and not own:
        return _reused_dataclass(hint, tuple(config.items()))
    return change_arguments(hint, lambda each: reuse(each, config))


@functools.lru_cache(maxsize=256)
def _reused_dataclass(kind: type, config: tuple[tuple[str, Any], ...]) -> type[_ReusedDataclass]:
    schema = _build(kind, cast(ConfigDict, dict(config)))
    return type(kind.__name__, (_ReusedDataclass,), {"schema": schema})


def _swap_adapted(schema: CoreNode, adapted: _Adapt) -> CoreNode:
    """
    Return a core schema with that of its adapter in place of every adapted class.

    Raises TypeError for a bound beside such a class, which would be applied to the instance.
    """
    hint = _hint(schema)
    found = adapted(hint)
    if found == hint:
        _check_bounds(schema, adapted)
        return with_parts(schema, lambda part: _swap_adapted(part, adapted))
    metadata = schema.get("metadata", {})
    if schema["type"] == "enum":
        # Other parts refer to an enum, so that it stays, and is described only.
        return {**schema, "metadata": {**metadata, DESCRIPTION: description_in(found)}}
    core = cast(CoreNode, TypeAdapter(found).core_schema)
    swapped = {**core, "metadata": {**core.get("metadata", {}), **metadata}}
    if "ref" not in schema:
        return swapped
    # A type alias, to whose name other parts refer.
    return {"type": "chain", "steps": [swapped], "ref": schema["ref"]}


def _hint(schema: object) -> TypeHint | None:
    """Return the hint that this core schema was made of if an adapter may know it, else None."""
    if not isinstance(schema, dict):
        return None
    kind = schema.get("type")
    if kind == "list":
        item = _hint(schema.get("items_schema"))
        bounds = Len(schema.get("min_length", 0), schema.get("max_length"))
        return None if item is None else annotate(GenericAlias(list, item), bounds)
    if kind not in ("is-instance", "enum") or not isinstance(schema["cls"], type):
        return None
    return annotate(schema["cls"], *schema.get("metadata", {}).get(BESIDE, ()))


def _check_bounds(schema: CoreNode, adapted: _Adapt) -> None:
    """Raise TypeError for a bound that pydantic would apply to an instance, not to its key."""
    chain = schema.get("type") == "chain"
    function = schema.get("function", {}).get("function")
    code = getattr(getattr(function, "func", function), "__module__", None) or ""
    if chain or code.startswith("pydantic."):
        hint = _hint(schema["steps"][0] if chain else schema.get("schema"))
        if adapted(hint) != hint:
            raise TypeError(
                f"a bound beside {without_metadata(hint).__name__} cannot be kept in a member of "
                "a class: take it off and check the value in the tool, or make it a parameter of "
                "its own"
            )
