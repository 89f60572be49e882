"""
Make, walk and rewrite core schemas, the dictionaries of ``pydantic_core.core_schema``.

Adapters cannot replace a hint inside a class or a type alias. So pydantic reads a member of an
adapted type as an instance of its class (``arbitrary_types_allowed``), and that part of the core
schema is replaced.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Hashable, Iterator
from types import GenericAlias
from typing import Any, ClassVar, Final, Self, TypeAlias, cast

from annotated_types import Len
from pydantic import ConfigDict, TypeAdapter
from pydantic.warnings import ArbitraryTypeWarning, UnsupportedFieldAttributeWarning
from pydantic_core import to_jsonable_python

from mcp_bridge.schemas import hints
from mcp_bridge.schemas.hints import Side, TypeHint

# Strict JSON mode, so that the schema is enforced exactly.
CONFIG = ConfigDict(
    strict=True,
    extra="forbid",
    allow_inf_nan=False,
    val_json_bytes="base64",
    ser_json_bytes="base64",
    ser_json_inf_nan="constants",
)
# A core schema or a part of one, such as a field. pydantic's own type is a union of TypedDicts,
# which a rewritten copy does not fit.
CoreNode: TypeAlias = dict[str, Any]

# Keys of a core schema that hold values rather than schemas, though these may look like schemas.
_VALUES: Final = frozenset(
    {"cls", "config", "default", "expected", "function", "members", "metadata", "ref"}
    | {"serialization"}
)
# Keys that hold schemas by name (of members, of tags); a name may be any word.
_NAMED: Final = frozenset({"fields", "choices"})
_HOLDERS: Final = (dict, list, tuple)
# The key of a core schema's metadata that holds a description for its JSON Schema.
DESCRIPTION: Final = "mcp_bridge_description"
# The key in a core schema's metadata for the metadata of the Annotated that held the class.
BESIDE: Final = "mcp_bridge_beside"

# The core types of plain data and of its containers.
_PLAIN: Final = frozenset(
    {"any", "bool", "date", "datetime", "decimal", "float", "int", "literal", "none", "str", "time"}
    | {"timedelta", "uuid", "dict", "frozenset", "list", "set", "tuple", "nullable", "union"}
    | {"dataclass", "dataclass-args", "dataclass-field", "typed-dict", "typed-dict-field"}
    | {"default", "definition-ref", "definitions", "model-field"}
)

_Adapt: TypeAlias = Callable[[TypeHint], TypeHint]


def parts(schema: object) -> Iterator[CoreNode]:
    """Yield a core schema and all schemas and fields inside it, in no particular order."""
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            for key, value in each.items():
                if key in _NAMED and isinstance(value, dict):
                    waiting.extend(value.values())
                elif isinstance(value, _HOLDERS) and key not in _VALUES:
                    waiting.append(value)
        elif isinstance(each, _HOLDERS):
            waiting.extend(each)


def is_plain(*schemas: CoreNode) -> bool:
    """Return whether checking values against core schemas runs none of the site's code."""
    return all(
        each.get("type", "any") in _PLAIN
        and each.get("default_factory") in (None, dict, frozenset, list, set, tuple)
        and not each.get("post_init")
        for each in parts(schemas)
    )


def with_parts(schema: CoreNode, change: Callable[[CoreNode], CoreNode]) -> CoreNode:
    """Return a core schema with ``change`` applied to each schema and field directly inside it."""
    changed: CoreNode = {}
    for key, value in schema.items():
        if not isinstance(value, _HOLDERS) or key in _VALUES:
            changed[key] = value
        elif key in _NAMED and isinstance(value, dict):
            changed[key] = {name: _changed(each, change) for name, each in value.items()}
        else:
            changed[key] = _changed(value, change)
    return changed


def _changed(value: object, change: Callable[[CoreNode], CoreNode]) -> object:
    if isinstance(value, dict):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(_changed(each, change) for each in value)
    return value


def change_root(schema: CoreNode, change: Callable[[CoreNode], CoreNode]) -> CoreNode:
    """Return a core schema with its root changed, beside the same definitions."""
    if schema["type"] == "definitions":
        return {**schema, "schema": change(schema["schema"])}
    return change(schema)


def gather_definitions(schema: CoreNode) -> CoreNode:
    """Return the same core schema with all definitions at its root, each once."""
    found: dict[str, CoreNode] = {}

    def without_definitions(part: CoreNode) -> CoreNode:
        if part.get("type") != "definitions":
            return with_parts(part, without_definitions)
        for each in part["definitions"]:
            if each["ref"] not in found:
                # Registered before its parts are visited, since they may refer to it.
                found[each["ref"]] = each
                found[each["ref"]] = without_definitions(each)
        inner = without_definitions(part["schema"])
        metadata = {**inner.get("metadata", {}), **part.get("metadata", {})}
        return {**inner, "metadata": metadata} if metadata else inner

    root = without_definitions(schema)
    if not found:
        return root
    return {"type": "definitions", "schema": root, "definitions": list(found.values())}


def with_names(schema: CoreNode) -> CoreNode:
    """Return a core schema that reads literals and enums as keys of dicts by their JSON names."""
    if not any("keys_schema" in each for each in parts(schema)):
        return schema
    definitions = {each["ref"]: each for each in parts(schema) if "ref" in each}

    def named(key: CoreNode) -> CoreNode:
        if key["type"] == "definition-ref":
            key = {**definitions[key["schema_ref"]]}
            del key["ref"]
        values = key.get("expected" if key["type"] == "literal" else "members")
        if values is None:
            return with_parts(key, named)
        names = {next(iter(to_jsonable_python({each: None}))): each for each in values}
        if all(getattr(each, "value", each) == name for name, each in names.items()):
            return key
        function = {"type": "no-info", "function": names.__getitem__}
        known = {"type": "literal", "expected": list(names)}
        return {"type": "function-after", "function": function, "schema": known}

    def changed(part: CoreNode) -> CoreNode:
        inner = with_parts(part, changed)
        if "keys_schema" in part:
            inner["keys_schema"] = named(part["keys_schema"])
        return inner

    return changed(schema)


class ReadHint:
    """
    A hint as pydantic reads it for one side; ``core`` is its core schema.

    ``of()`` reads a hint once until forget_hints() is called, or each time if an adapter changes
    it. ``hint`` is the original hint, and ``adapted`` the adapter's replacement.
    """

    side: ClassVar[Side]
    _known: ClassVar[dict[Hashable, Any]] = {}

    def __init__(self, hint: TypeHint) -> None:
        # Its key contains ids, which are unique only while the hint is alive.
        self.hint = hint
        with warnings.catch_warnings():
            # A procedure receives a fresh dict, so its items need no protection.
            warnings.filterwarnings("ignore", message=".*`ReadOnly` qualifier")
            # _Hint of inputs handles these itself.
            warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)
            warnings.simplefilter("error", ArbitraryTypeWarning)
            try:
                self.adapted = hints.adapt(hint, self.side)
                self.core, is_changed = core_schema_of(self.adapted, CONFIG, self.side)
            except ArbitraryTypeWarning as warning:
                # It is not a type, for example ``[int]``.
                raise TypeError(str(warning).partition(" (")[0]) from warning
        self._is_shared = self.adapted is hint and not is_changed

    @classmethod
    def of(cls, hint: TypeHint) -> Self:
        """Return the cached object for a hint, or read the hint."""
        key = cls, hints.identity(hint)
        found: Self | None = cls._known.get(key)
        if found is None:
            found = cls(hint)
            if found._is_shared:
                cls._known[key] = found
        return found


def forget_hints() -> None:
    """Make the next use read each hint again, since the types may have changed."""
    ReadHint._known.clear()


def core_schema_of(hint: TypeHint, config: ConfigDict, side: Side) -> tuple[CoreNode, bool]:
    """Return the core schema of a hint with its adapted types replaced, and whether any was."""
    # Equal hints are adapted once, since adapters may create classes.
    adapted = functools.cache(functools.partial(hints.adapt, side=side))
    schema = with_names(_read(hint, ConfigDict(**{**config, "arbitrary_types_allowed": True})))
    found = [each for each in map(_hint, parts(schema)) if each is not None]
    if any(adapted(each) != each for each in found):
        return gather_definitions(_swap_adapted(schema, adapted)), True
    if any(each.get("type") == "is-instance" for each in parts(schema)):
        # If it has a class that pydantic cannot read, this raises pydantic's error.
        return _read(hint, config), False
    return schema, False


def _read(hint: TypeHint, config: ConfigDict) -> CoreNode:
    # In a tuple, since TypeAdapter cannot take a config for a class that has its own.
    adapter = TypeAdapter(tuple[(hint,)], config=config)
    # Raises an error that names an undefined name; otherwise does nothing.
    adapter.rebuild()
    return change_root(cast(CoreNode, adapter.core_schema), lambda root: root["items_schema"][0])


def _swap_adapted(schema: CoreNode, adapted: _Adapt) -> CoreNode:
    hint = _hint(schema)
    found = adapted(hint)
    if found == hint:
        _check_bounds(schema, adapted)
        return with_parts(schema, lambda part: _swap_adapted(part, adapted))
    metadata = schema.get("metadata", {})
    if schema["type"] == "enum":
        # Other parts refer to an enum, so it stays and only gets a description.
        return {**schema, "metadata": {**metadata, DESCRIPTION: hints.description_in(found)}}
    core = cast(CoreNode, TypeAdapter(found).core_schema)
    swapped = {**core, "metadata": {**core.get("metadata", {}), **metadata}}
    if "ref" not in schema:
        return swapped
    # A type alias, to which other parts refer by name.
    return {"type": "chain", "steps": [swapped], "ref": schema["ref"]}


def _hint(schema: CoreNode) -> TypeHint | None:
    """Return the hint of this core schema if an adapter may handle it, else None."""
    kind = schema.get("type")
    if kind == "list":
        item = _hint(schema.get("items_schema", {}))
        bounds = Len(schema.get("min_length", 0), schema.get("max_length"))
        return None if item is None else hints.annotate(GenericAlias(list, item), bounds)
    if kind not in ("is-instance", "enum") or not isinstance(schema["cls"], type):
        return None
    return hints.annotate(schema["cls"], *schema.get("metadata", {}).get(BESIDE, ()))


def _check_bounds(schema: CoreNode, adapted: _Adapt) -> None:
    """Raise TypeError for a bound that pydantic would apply to an instance instead of its key."""
    chain = schema.get("type") == "chain"
    function = schema.get("function", {}).get("function")
    code = getattr(getattr(function, "func", function), "__module__", None) or ""
    if chain or code.startswith("pydantic."):
        hint = _hint(schema["steps"][0] if chain else schema.get("schema", {}))
        if adapted(hint) != hint:
            raise TypeError(
                f"a bound on {hints.without_metadata(hint).__name__} is not supported in a member "
                "of a class: remove it and check the value in the tool, or make it a separate "
                "parameter"
            )
