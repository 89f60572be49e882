"""
Adapted types as members of classes, and under type aliases, wherever in a hint those stand.

No hint inside these can be replaced. So pydantic is let take such a member for an instance of its
class, and what it made of that is replaced in the core schema.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Annotated, Any, ClassVar, Final, get_args, get_origin
from weakref import WeakSet

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic_core import CoreSchema
from typing_extensions import get_type_hints, is_typeddict

from mcp_bridge.schemas.adapters import ADAPTERS, Side, adapted, note, within
from mcp_bridge.schemas.definitions import at_root, gathered
from mcp_bridge.schemas.strictness import copied, with_parts

# Where a core schema keeps what stood beside the class in its Annotated.
BESIDE: Final = "mcp_bridge_beside"
# Where pydantic keeps what a JSON Schema has besides.
_UPDATES: Final = "pydantic_js_updates"
# Where a class says itself how pydantic reads it.
_OWN: Final = "__get_pydantic_core_schema__"
_BOUNDS: Final = ("min_length", "max_length")


def model_of(
    name: str, config: ConfigDict, fields: Mapping[str, tuple[Any, Any]], side: Side
) -> type[BaseModel]:
    """A model with these fields, whose hints may hold adapted types at any depth."""
    inside = any(contains_adapted(hint, side) for hint, _ in fields.values())
    given: dict[str, Any] = dict(fields)
    if not inside:
        given = {each: (_known(hint, config), field) for each, (hint, field) in fields.items()}
    model = create_model(name, __config__=_config(config, inside), **given)
    # Where a name is not known, this says which; else it does nothing.
    model.model_rebuild()
    if inside:
        model.__pydantic_core_schema__ = gathered(
            swap_adapted(model.__pydantic_core_schema__, side)
        )
    return model


def core_schema_of(hint: Any, config: ConfigDict, side: Side) -> CoreSchema:
    """The core schema of a hint that may hold adapted types at any depth."""
    schema: CoreSchema
    if contains_adapted(hint, side):
        schema = gathered(swap_adapted(_made(hint, _config(config, True)), side))
        return schema
    known = _known(hint, config)
    made = isinstance(known, type) and issubclass(known, _AdaptedClass)
    schema = known.schema if made else _made(known, config)
    return schema


def _made(hint: Any, config: ConfigDict) -> Any:
    # In a tuple, since a class with a config of its own takes no other from a TypeAdapter.
    adapter: TypeAdapter[Any] = TypeAdapter(tuple[hint], config=config)
    # Where a name is not known, this says which; else it does nothing.
    adapter.rebuild()
    return at_root(adapter.core_schema, lambda root: root["items_schema"][0])


class _AdaptedClass:
    """What pydantic reads in place of a dataclass, whose core schema is made once for all tools."""

    schema: ClassVar[Any]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        # pydantic changes what it is given.
        return copied(cls.schema)


def _known(hint: Any, config: ConfigDict) -> Any:
    """The hint with a stand-in for each dataclass."""
    if isinstance(hint, type) and is_dataclass(hint) and not hasattr(hint, _OWN):
        return _adapted_class(hint, tuple(config.items()))
    return within(hint, lambda each: _known(each, config))


@functools.lru_cache(maxsize=256)
def _adapted_class(kind: type, config: tuple[tuple[str, Any], ...]) -> type[_AdaptedClass]:
    given: Any = dict(config)
    return type(kind.__name__, (_AdaptedClass,), {"schema": _made(kind, given)})


def contains_adapted(hint: Any, side: Side) -> bool:
    """
    Whether adapted types are left in a hint that was adapted: in members, in type aliases.

    Raises what adapters raise.
    """
    plain = _plain(side, len(ADAPTERS))
    seen: dict[int, Any] = {}
    found = _contains_adapted(hint, side, plain, seen)
    if not found:
        plain.update(each for each in seen.values() if isinstance(each, type))
    return found


@functools.cache
def _plain(side: Side, adapters: int) -> WeakSet[type]:
    """The classes in which so many adapters found nothing: tools share most of theirs."""
    return WeakSet()


def _contains_adapted(hint: Any, side: Side, plain: WeakSet[type], seen: dict[int, Any]) -> bool:
    if id(hint) in seen or (isinstance(hint, type) and hint in plain):
        return False
    seen[id(hint)] = hint
    if adapted(hint, side) is not hint:
        return True
    if isinstance(hint, type):
        below = [*(members_of(hint) or {}).values()]
    else:
        bare = without_metadata(hint)
        below = [bare, get_origin(bare), *get_args(hint)]
    return any(_contains_adapted(each, side, plain, seen) for each in below)


def _config(config: ConfigDict, inside: bool) -> ConfigDict:
    return ConfigDict(**{**config, "arbitrary_types_allowed": True}) if inside else config


def without_metadata(hint: Any) -> Any:
    """The hint itself, under Annotated, type aliases and NewType."""
    while True:
        if get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
        elif hasattr(hint, "__value__"):
            hint = hint.__value__
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        else:
            return hint


@functools.lru_cache(maxsize=256)
def members_of(kind: type) -> dict[str, Any] | None:
    """The members of a class that declares them, with their hints; None for any other class."""
    if issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    if is_dataclass(kind) or is_typeddict(kind) or hasattr(kind, "_fields"):
        try:
            return dict(get_type_hints(kind))
        except NameError:
            # pydantic may know the name, such as that of a class inside a function, or reports it.
            return None
    return None


def swap_adapted(schema: Any, side: Side) -> Any:
    """
    A core schema with that of its adapter in place of every adapted class.

    Raises TypeError for a bound beside such a class, which would be applied to the instance.
    """
    change = functools.partial(swap_adapted, side=side)
    if isinstance(schema, list | tuple):
        return type(schema)(map(change, schema))
    if not isinstance(schema, Mapping):
        return schema
    hint = _hint(schema)
    found: Any = hint if hint is None else adapted(hint, side)
    if found is not hint:
        core: Any = schema if schema["type"] == "enum" else TypeAdapter(found).core_schema
        told = {**core.get("metadata", {}), **schema.get("metadata", {})}
        if core is schema:
            # Others refer to an enum, so that it stays, and says what its adapter has to say.
            told[_UPDATES] = {"description": note(found), **told.get(_UPDATES, {})}
        told_core = {**core, "metadata": told}
        if "ref" not in schema or core is schema:
            return told_core
        # A type alias, whose name others refer to.
        return {"type": "chain", "steps": [told_core], "ref": schema["ref"]}
    _check_bounds(schema, side)
    return with_parts(schema, change)


def _hint(schema: Any) -> Any:
    """The hint that an adapter may know, of which this core schema was made; None for others."""
    if not isinstance(schema, Mapping):
        return None
    if schema.get("type") == "list":
        item: Any = _hint(schema.get("items_schema"))
        bounds = {key: schema[key] for key in _BOUNDS if key in schema}
        if item is None:
            return None
        several = types.GenericAlias(list, item)
        return Annotated[several, Field(**bounds)] if bounds else several
    if schema.get("type") not in ("is-instance", "enum") or not isinstance(schema["cls"], type):
        return None
    beside = schema.get("metadata", {}).get(BESIDE, ())
    kind: Any = schema["cls"]
    return Annotated[(kind, *beside)] if beside else kind


def _check_bounds(schema: Mapping[str, Any], side: Side) -> None:
    """Refuse what pydantic would apply to an instance, and mean what identifies it."""
    inner = schema["steps"][0] if schema.get("type") == "chain" else schema.get("schema")
    function = schema.get("function", {}).get("function")
    code = getattr(getattr(function, "func", function), "__module__", None) or ""
    bound = schema.get("type") == "chain" or code.startswith("pydantic.")
    hint = _hint(inner) if bound else None
    if hint is not None and adapted(hint, side) is not hint:
        raise TypeError(
            f"a bound beside {without_metadata(hint).__name__} cannot be kept in a member of a "
            "class: take it off and check the value in the tool, or make it a parameter of its own"
        )
