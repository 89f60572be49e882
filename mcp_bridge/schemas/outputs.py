"""Make the output schema of a return hint with pydantic, and serialise results as JSON."""

from __future__ import annotations

import copy
import functools
import json
import operator
from collections import abc, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Final, Never, NoReturn, get_args

from pydantic import BaseModel, ConfigDict
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreConfig, SchemaSerializer, SchemaValidator, core_schema

from mcp_bridge.protocol import CallToolResult, ContentBlock
from mcp_bridge.schemas import core_schemas, hints
from mcp_bridge.schemas.core_schemas import ReadHint, change_root
from mcp_bridge.schemas.generator import generate
from mcp_bridge.schemas.hints import TypeHint
from mcp_bridge.schemas.inputs import MODEL, field_of, model_of
from mcp_bridge.schemas.signatures import MISSING
from mcp_bridge.schemas.strictness import plain_validator, serializer, strict_validator

# The member that wraps a result that is not an object (the same for every revision).
WRAPPER: Final = "result"
_UNTYPED: Final = (MISSING, Any, None, type(None), object, Never, NoReturn)
# Results that are collected before they are serialised.
_GENERATED: Final = (
    *(abc.Iterator, abc.Generator, abc.AsyncIterable, abc.AsyncIterator, abc.AsyncGenerator),
)
_ABSENT: Final = object()
_generate: Final = functools.partial(generate, of_results=True)
# Types that are serialised as lists already, and iterable types that are not lists.
_LISTS: Final = (list, tuple, set, frozenset, deque)
_NO_LISTS: Final = (str, bytes, bytearray, abc.Mapping, BaseModel)
_CONTENT: Final[list[Callable[[TypeHint], bool]]] = []


def register_content(predicate: Callable[[TypeHint], bool]) -> None:
    """Register a predicate for further parts or metadata of hints that promise content blocks."""
    _CONTENT.append(predicate)


_CORE_CONFIG: Final[CoreConfig] = MODEL["config"]
_ANY: Final = SchemaSerializer(core_schema.tuple_schema([core_schema.any_schema()]), _CORE_CONFIG)


class Outputs:
    """
    The result of a function.

    ``schema`` is the output schema, whose root is an object, or None if the hint does not promise a
    structured result. ``errors`` are sentences about a hint that pydantic cannot read, ``notes``
    about values that the schema does not describe. ``returns`` is the hint, as a list for a
    generator. ``is_content``: it promises content blocks. ``serializer`` writes a tuple of one
    result; ``is_wrapped``: the schema is that of a wrapper (None: depends on the value).
    ``description`` is the docstring's, for a hint without one.
    """

    def __init__(self, returns: TypeHint, description: str = "") -> None:
        if hints.origin_of(returns) in _GENERATED:
            returns = list[get_args(returns)[0]]  # type: ignore[misc]
        self.returns = returns
        self.errors: list[str] = []
        self.notes: list[str] = []
        self.schema: JsonSchemaValue | None = None
        self.is_content = _is_content(returns)
        self.is_wrapped: bool | None = None
        self._result: _Result | None = None
        if any(returns is each for each in _UNTYPED) or self.is_content:
            return
        token = hints.NOTES.set(self.notes)
        try:
            self._result = _Result.of(returns)
        except tuple(hints.TRANSIENT):
            raise
        except Exception as exception:
            self.errors.append(f"pydantic cannot read the return hint: {exception}")
            return
        finally:
            hints.NOTES.reset(token)
        self.schema, self.is_wrapped = self._result.unwrapped(description)

    @functools.cached_property
    def serializer(self) -> SchemaSerializer:
        return _ANY if self._result is None else self._result.serializer

    @functools.cached_property
    def check(self) -> Callable[[bytes], object]:
        """A function that raises ValueError for wrapped JSON text that breaks the schema."""
        return bytes if self._result is None else self._result.check

    def conform(self, value: object, *, is_read: bool = False) -> object:
        """
        Return a value in the hint's type, such as an instance for a dict, or the same value.

        Raises pydantic's ValidationError if an object lacks a member that the hint declares, and
        ValueError for an iterator in a value that has already been read (``is_read``).
        """
        return _Shape(is_read).conform(Any if self._result is None else self.returns, value)


class _Result(ReadHint):
    """A return hint, whose serializer and validator are created on first use."""

    side = "result"

    def __init__(self, hint: TypeHint) -> None:
        super().__init__(hint)
        self._wrapped = change_root(
            self.core, lambda root: model_of({WRAPPER: field_of(root)}, None, [])
        )
        self._whole = _generate(self._wrapped, "serialization")

    def unwrapped(self, description: str) -> tuple[JsonSchemaValue, bool]:
        """Return the result's schema and False if it is an object, else its wrapper's and True."""
        whole, inner = self._whole, self._whole["properties"][WRAPPER]
        if description:
            inner = {"description": description, **inner}
        definitions = {"$defs": whole["$defs"]} if "$defs" in whole else {}
        name = str(inner.get("$ref", "")).removeprefix("#/$defs/")
        opened = {**whole["$defs"][name], **inner} if name else {**inner}
        opened.pop("$ref", None)
        if opened.get("type") != "object":
            return {**whole, "properties": {WRAPPER: inner}}, True
        return {**opened, **definitions}, False

    @functools.cached_property
    def serializer(self) -> SchemaSerializer:
        # In a tuple, since the root of a serializer ignores the config.
        in_tuple = change_root(self.core, lambda root: {"type": "tuple", "items_schema": [root]})
        return serializer(in_tuple, _CORE_CONFIG)

    @functools.cached_property
    def check(self) -> Callable[[bytes], object]:
        # The site's code may read differently than it writes, or have side effects.
        has_own_code = any(
            "serialization" in each
            or each.get("init") is False
            or each.get("computed_fields")
            or str(each.get("type")).startswith("function-")
            for each in core_schemas.parts(self._wrapped)
        )
        # Some types can be serialised but not validated.
        with suppress(PydanticInvalidForJsonSchema):
            read = {} if has_own_code else _generate(self._wrapped, "validation")
            # pydantic is faster, but works only if results are read as they are written.
            if _comparable(read) == _comparable(self._whole):
                return strict_validator(self._wrapped).validate_json
        # Imported here, since only some sites have such results.
        from referencing import Registry

        from mcp_bridge.schemas.validation import Linear

        validator = Linear({**self._whole}, registry=Registry())
        return lambda whole: validator.validate(json.loads(whole))


def _comparable(schema: object) -> object:
    """Return a schema without the keywords that may differ between results and arguments."""
    if isinstance(schema, Mapping):
        left_out = ("required", "default", "readOnly", "writeOnly")
        return {key: _comparable(each) for key, each in schema.items() if key not in left_out}
    return list(map(_comparable, schema)) if isinstance(schema, list) else schema


def _is_content(hint: TypeHint) -> bool:
    """Return whether a hint promises content blocks, which output schemas do not describe."""
    if hints.origin_of(hint) in (*hints.UNIONS, list, tuple, abc.Iterable, Annotated):
        return any(_is_content(each) for each in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, ContentBlock | CallToolResult):
        return True
    return any(promises(hint) for promises in _CONTENT)


def _is_list(hint: TypeHint) -> bool:
    """Return whether a hint, or a branch of it, is a collection without member names."""
    hint = hints.without_metadata(hint)
    kind = hints.origin_of(hint) or hint
    if kind in hints.UNIONS:
        return any(map(_is_list, get_args(hint)))
    is_kind = isinstance(kind, type) and issubclass(kind, abc.Iterable)
    return is_kind and not issubclass(kind, _NO_LISTS) and hints.members_of(kind) is None


class _Shape:
    """A converter of adapted objects and collections to the types of their hints."""

    def __init__(self, is_read: bool) -> None:
        self.is_read = is_read

    def conform(self, hint: TypeHint, value: object) -> object:
        """Return a value in the type of its hint; the same object if it already conforms."""
        hint = hints.without_metadata(hint)
        value = self.listed(hint, value)
        arguments = get_args(hint)
        if hints.origin_of(hint) in hints.UNIONS:
            return self.as_branch(arguments, value)
        members = hints.members_of(hint) if isinstance(hint, type) else None
        if members is None and isinstance(value, list | tuple | set | frozenset):
            if hints.origin_of(hint) is not tuple or ... in arguments:
                arguments = (arguments or (Any,))[:1] * len(value)
            read = [self.conform(*pair) for pair in zip(arguments, value, strict=False)]
            return value if all(map(operator.is_, read, value)) else read
        if isinstance(value, dict):
            item = arguments[1] if len(arguments) == 2 else Any
            known = dict.fromkeys(value, item) if members is None else members
            return {k: self.conform(known[k], v) if k in known else v for k, v in value.items()}
        return value if members is None else self.with_members(hint, members, value)

    def listed(self, hint: TypeHint, value: object) -> object:
        """Return a collection as a list if an adapter handles it or the hint is a list."""
        for adapter in hints.ADAPTERS:
            items = adapter.items(value)
            if items is not None:
                return list(items)
        if isinstance(value, abc.Iterator) and self.is_read:
            # Part of it may have been consumed, so the result would be incomplete.
            raise ValueError("an iterator inside a result can be read only once: return a list")
        if not isinstance(value, abc.Iterable) or isinstance(value, (*_LISTS, *_NO_LISTS)):
            return value
        return list(value) if _is_list(hint) else value

    def as_branch(self, branches: tuple[TypeHint, ...], value: object) -> object:
        """Return the value in the first branch that can read it; else raise the last error."""
        errors = []
        for branch in branches:
            try:
                if (read := self.conform(branch, value)) is not value:
                    return read
            except ValueError as exception:
                errors.append(exception)
        if errors:
            raise errors[-1]
        return value

    def with_members(self, hint: type, members: Mapping[str, TypeHint], value: object) -> object:
        """Return an adapted object in the type of its hint, or with members converted."""
        is_known = any(each.has_members(value) for each in hints.ADAPTERS)
        found = {
            # Django raises AttributeError for an unset one-to-one relation.
            name: getattr(value, name, None if is_known and hasattr(type(value), name) else _ABSENT)
            for name in members
        }
        before = {name: each for name, each in found.items() if each is not _ABSENT}
        after = {name: self.conform(members[name], each) for name, each in before.items()}
        if is_known:
            return _reader(hint).validate_python(after, by_alias=True, by_name=True)
        changed = {name: each for name, each in after.items() if each is not before[name]}
        if not changed:
            return value
        if isinstance(value, tuple):
            return type(value)(**after)
        changed_copy = copy.copy(value)
        for name, each in changed.items():
            object.__setattr__(changed_copy, name, each)
        return changed_copy


@functools.lru_cache(maxsize=256)
def _reader(hint: type) -> SchemaValidator:
    return plain_validator(core_schemas.core_schema_of(hint, ConfigDict(), "result")[0])
