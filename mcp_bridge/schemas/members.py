"""
Adapted types as members of classes, and under type aliases, at any depth of a hint.

A hint inside these cannot be replaced. So pydantic reads such a member as an instance of its class
(``arbitrary_types_allowed``), and that part of the core schema is replaced.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import is_dataclass
from types import GenericAlias
from typing import Any, ClassVar, Final, cast, get_args, get_origin
from weakref import WeakSet

from pydantic import ConfigDict, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo

from mcp_bridge.schemas.adapters import ADAPTERS, Side, adapt
from mcp_bridge.schemas.core_schemas import (
    CoreNode,
    change_root,
    copy_schema,
    gather_definitions,
    with_parts,
)
from mcp_bridge.schemas.generator import DESCRIPTION
from mcp_bridge.schemas.hints import (
    TypeHint,
    annotate,
    change_arguments,
    description_in,
    members_of,
    without_metadata,
)

# The key in a core schema's metadata for the metadata of the Annotated that held the class.
BESIDE: Final = "mcp_bridge_beside"


def model_schema(
    name: str, config: ConfigDict, fields: Mapping[str, tuple[TypeHint, FieldInfo]], side: Side
) -> CoreNode:
    """
    Return the core schema of a new pydantic model with these fields.

    Their hints may hold adapted types at any depth. Raises any exception of pydantic and adapters.
    """
    adapting = _Adapting(side)
    inside = any(_contains_adapted(hint, adapting) for hint, _ in fields.values())
    given: dict[str, Any] = {
        each: (hint if inside else _reused(hint, config), field)
        for each, (hint, field) in fields.items()
    }
    model = create_model(name, __config__=_config(config, inside), **given)
    # Where a name is not known, this says which; else it does nothing.
    model.model_rebuild()
    schema = cast(CoreNode, TypeAdapter(model).core_schema)
    return gather_definitions(_swap_adapted(schema, adapting)) if inside else schema


def core_schema_of(hint: TypeHint, config: ConfigDict, side: Side) -> CoreNode:
    """
    Return the core schema of a hint that may hold adapted types at any depth.

    Raises any exception of pydantic and of adapters.
    """
    adapting = _Adapting(side)
    if _contains_adapted(hint, adapting):
        return gather_definitions(_swap_adapted(_build(hint, _config(config, True)), adapting))
    reused = _reused(hint, config)
    if isinstance(reused, type) and issubclass(reused, _ReusedDataclass):
        return reused.schema
    return _build(reused, config)


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


def _reused(hint: TypeHint, config: ConfigDict) -> TypeHint:
    """Return the hint with a _ReusedDataclass in place of each dataclass."""
    own = hasattr(hint, "__get_pydantic_core_schema__")
    if isinstance(hint, type) and is_dataclass(hint) and not own:
        return _reused_dataclass(hint, tuple(config.items()))
    return change_arguments(hint, lambda each: _reused(each, config))


@functools.lru_cache(maxsize=256)
def _reused_dataclass(kind: type, config: tuple[tuple[str, Any], ...]) -> type[_ReusedDataclass]:
    schema = _build(kind, cast(ConfigDict, dict(config)))
    return type(kind.__name__, (_ReusedDataclass,), {"schema": schema})


def _config(config: ConfigDict, inside: bool) -> ConfigDict:
    return ConfigDict(**{**config, "arbitrary_types_allowed": True}) if inside else config


class _Adapting:
    """Adapt hints for one schema, equal ones once: adapters may make classes of their own."""

    def __init__(self, side: Side) -> None:
        self.side: Side = side
        self._changed: dict[TypeHint, TypeHint] = {}

    def __call__(self, hint: TypeHint) -> TypeHint:
        """Return the adapted hint, or the very same one."""
        try:
            changed = self._changed.get(hint)
        except TypeError:
            # Metadata need not be hashable.
            return adapt(hint, self.side)
        if changed is None:
            changed = adapt(hint, self.side)
            if changed is not hint:
                self._changed[hint] = changed
        return changed


def _contains_adapted(hint: TypeHint, adapting: _Adapting) -> bool:
    """
    Return whether an adapted hint still holds adapted types: in members, in type aliases.

    Raises any exception that an adapter raises.
    """
    plain = _plain(adapting.side, len(ADAPTERS))
    seen: dict[int, TypeHint] = {}

    def contains(hint: TypeHint) -> bool:
        if id(hint) in seen or (isinstance(hint, type) and hint in plain):
            return False
        seen[id(hint)] = hint
        if adapting(hint) is not hint:
            return True
        if isinstance(hint, type):
            return any(map(contains, (members_of(hint) or {}).values()))
        bare = without_metadata(hint)
        return any(map(contains, (bare, get_origin(bare), *get_args(hint))))

    found = contains(hint)
    if not found:
        plain.update(each for each in seen.values() if isinstance(each, type))
    return found


@functools.cache
def _plain(side: Side, adapters: int) -> WeakSet[type]:
    """Return the classes in which so many adapters found nothing: tools share most of theirs."""
    return WeakSet()


def _swap_adapted(schema: CoreNode, adapting: _Adapting) -> CoreNode:
    """
    Return a core schema with that of its adapter in place of every adapted class.

    Raises TypeError for a bound beside such a class, which would be applied to the instance.
    """
    hint = _hint(schema)
    found: TypeHint = hint if hint is None else adapting(hint)
    if found is hint:
        _check_bounds(schema, adapting)
        return with_parts(schema, lambda part: _swap_adapted(part, adapting))
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
    if schema.get("type") == "list":
        item = _hint(schema.get("items_schema"))
        bounds = {key: schema[key] for key in ("min_length", "max_length") if key in schema}
        if item is None:
            return None
        hint = GenericAlias(list, item)
        return annotate(hint, Field(**bounds)) if bounds else hint
    if schema.get("type") not in ("is-instance", "enum") or not isinstance(schema["cls"], type):
        return None
    return annotate(schema["cls"], *schema.get("metadata", {}).get(BESIDE, ()))


def _check_bounds(schema: CoreNode, adapting: _Adapting) -> None:
    """Raise TypeError for a bound that pydantic would apply to an instance, not to its key."""
    chain = schema.get("type") == "chain"
    function = schema.get("function", {}).get("function")
    code = getattr(getattr(function, "func", function), "__module__", None) or ""
    if not chain and not code.startswith("pydantic."):
        return
    hint = _hint(schema["steps"][0] if chain else schema.get("schema"))
    if hint is not None and adapting(hint) is not hint:
        raise TypeError(
            f"a bound beside {without_metadata(hint).__name__} cannot be kept in a member of a "
            "class: take it off and check the value in the tool, or make it a parameter of its own"
        )
