"""A return hint as a pydantic model: the output schema, and the result as JSON."""

from __future__ import annotations

import functools
import json
import types
import typing
from collections import abc
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import SchemaSerializer, core_schema
from referencing import Registry

from mcp_bridge.protocol.content import CallToolResult, ContentBlock
from mcp_bridge.schemas.adapters import adapted
from mcp_bridge.schemas.definitions import at_root
from mcp_bridge.schemas.generator import generate, ignore_readonly_warnings
from mcp_bridge.schemas.inputs import CONFIG
from mcp_bridge.schemas.members import core_schema_of
from mcp_bridge.schemas.shapes import conform_to_hint
from mcp_bridge.schemas.signatures import MISSING
from mcp_bridge.schemas.strictness import has_own_code, serializer, strict_validator
from mcp_bridge.schemas.validation.keywords import Linear

# The member that holds a result which is no object (decided for every revision alike).
WRAPPER: Final = "result"
_OPENING: Final = b'{"result":'
_UNTYPED: Final = (MISSING, Any, None, type(None), object)
# What is collected before it is written.
_GENERATED: Final = (
    *(abc.Iterator, abc.Generator),
    *(abc.AsyncIterable, abc.AsyncIterator, abc.AsyncGenerator),
)
# A core schema, and the JSON Schema of what it writes.
_Held = tuple[Any, dict[str, Any]]
_CONTENT: list[Callable[[Any], bool]] = []


def register_content(predicate: Callable[[Any], bool]) -> None:
    """
    Say which hints promise content blocks besides the block types themselves.

    ``predicate`` is asked of each part of a hint: a type, or what stands in an ``Annotated``.
    """
    _CONTENT.append(predicate)


class Result(BaseModel):
    model_config = CONFIG


_CORE_CONFIG: Final[Any] = cast("Any", Result.__pydantic_core_schema__)["config"]
_ANY: Final = SchemaSerializer(core_schema.tuple_schema([core_schema.any_schema()]), _CORE_CONFIG)


class Outputs:
    """
    What a function gives back, and what its docstring says of that.

    ``schema`` is the output schema, whose root is an object, or None where the hint promises no
    structured result. ``problems`` are sentences on a hint that pydantic cannot read. ``returns``
    is the hint, as a list for what is generated.
    """

    def __init__(self, returns: Any, description: str = "") -> None:
        self.problems: list[str] = []
        self.schema: dict[str, Any] | None = None
        self._wrapped: bool | None = None
        self._hint: Any = Any
        self._serializer = _ANY
        self._held: _Held | None = None
        self.returns = returns = _collected(returns)
        self.is_content = _is_content(returns)
        if any(returns is each for each in _UNTYPED) or self.is_content:
            return
        try:
            with ignore_readonly_warnings():
                inner = core_schema_of(adapted(returns, "result"), CONFIG, "result")
            core = at_root(inner, _wrapped)
            whole = generate(core, "serialization")
            self._serializer = serializer(at_root(inner, _listed), _CORE_CONFIG)
        except Exception as exception:
            self.problems.append(f"the return hint is not one that pydantic reads: {exception}")
            return
        self._hint = returns
        self._held = (core, whole)
        self.schema, self._wrapped = _unwrapped(_described(whole, description))

    @functools.cached_property
    def _check(self) -> Callable[[bytes], Any]:
        # Made when the first result comes: half of the tools of a process may never be called.
        return bytes if self._held is None else _checker(*self._held)

    def dump(self, value: Any) -> tuple[bytes, bytes]:
        """
        The value as JSON text, plain and as ``structuredContent`` (an object always).

        Raises ValueError or TypeError where it is not what the schema says, or is no JSON.
        """
        try:
            plain = self._plain(value)
        except Exception:
            # Most results need no reading, and looking for the others would cost each of them.
            read = conform_to_hint(self._hint, value)
            if read is value:
                raise
            plain = self._plain(read)
        whole = _OPENING + plain + b"}"
        self._check(whole)
        wrapped = not plain.startswith(b"{") if self._wrapped is None else self._wrapped
        return plain, whole if wrapped else plain

    def _plain(self, value: Any) -> bytes:
        # Without pydantic's warnings, which cost more than the rest: the check is stricter.
        return self._serializer.to_json((value,), warnings=False, by_alias=True)[1:-1]


def _checker(core: Any, schema: Mapping[str, Any]) -> Callable[[bytes], Any]:
    """
    What holds a result to its schema: pydantic where it can, for its speed, else jsonschema.

    It cannot where a result is written in another way than an argument is read (aliases, computed
    fields, serializers), nor where reading it would run validators of the site's own again.
    """
    try:
        if not has_own_code(core) and _shape(generate(core, "validation")) == _shape(schema):
            return strict_validator(core).validate_json
    except PydanticInvalidForJsonSchema:
        # It can be written, and not be read.
        pass
    checked = Linear(dict(schema), registry=Registry())
    return lambda whole: checked.validate(json.loads(whole))


def _shape(schema: Any) -> Any:
    """A schema without what a result and an argument may differ in."""
    if isinstance(schema, Mapping):
        left_out = ("required", "default", "readOnly", "writeOnly")
        return {key: _shape(value) for key, value in schema.items() if key not in left_out}
    if isinstance(schema, list):
        return [_shape(each) for each in schema]
    return schema


def _listed(core: Any) -> Any:
    # The root of a serializer takes no config, and what is in a tuple does.
    return core_schema.tuple_schema([core])


def _wrapped(core: Any) -> Any:
    fields = core_schema.model_fields_schema({WRAPPER: core_schema.model_field(core)})
    return core_schema.model_schema(Result, fields, config=_CORE_CONFIG)


def _described(whole: dict[str, Any], description: str) -> dict[str, Any]:
    """The schema of a wrapper, with what the docstring says where the hint says nothing."""
    if not description:
        return whole
    inner = {"description": description, **whole["properties"][WRAPPER]}
    return {**whole, "properties": {WRAPPER: inner}}


def _unwrapped(whole: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The schema of the result itself where that is an object, else of its wrapper."""
    inner = dict(whole["properties"][WRAPPER])
    definitions = whole.get("$defs", {})
    name = str(inner.get("$ref", "")).removeprefix("#/$defs/")
    if name:
        inner = {**definitions[name], **{k: v for k, v in inner.items() if k != "$ref"}}
    if inner.get("type") != "object":
        return whole, True
    return {**inner, **({"$defs": definitions} if definitions else {})}, False


def _is_content(hint: Any) -> bool:
    """Whether a hint promises content blocks, which no output schema describes."""
    origin = get_origin(hint)
    if origin in (typing.Union, types.UnionType, list, tuple, abc.Iterable, Annotated):
        return any(_is_content(each) for each in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, ContentBlock | CallToolResult):
        return True
    return any(promises(hint) for promises in _CONTENT)


def _collected(hint: Any) -> Any:
    """The hint of a generator as that of the list which is made of it."""
    if get_origin(hint) in _GENERATED:
        return list[get_args(hint)[0]]  # type: ignore[misc]
    return hint
