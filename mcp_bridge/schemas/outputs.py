"""A return hint as a pydantic model: the output schema, and the result as JSON."""

from __future__ import annotations

import functools
import json
from collections import abc
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, cast, get_args

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreConfig, SchemaSerializer, core_schema
from referencing import Registry

from mcp_bridge.protocol import CallToolResult, ContentBlock, JSONSchema
from mcp_bridge.schemas.adapters import adapt
from mcp_bridge.schemas.conform import conform_to_hint
from mcp_bridge.schemas.core_schemas import CoreNode, change_root
from mcp_bridge.schemas.generator import generate, ignore_readonly_warnings
from mcp_bridge.schemas.hints import UNIONS, TypeHint, origin_of
from mcp_bridge.schemas.inputs import CONFIG
from mcp_bridge.schemas.members import core_schema_of
from mcp_bridge.schemas.signatures import MISSING
from mcp_bridge.schemas.strictness import has_own_code, serializer, strict_validator
from mcp_bridge.schemas.validation.keywords import Linear

# The member that holds a result which is no object (decided for every revision alike).
WRAPPER: Final = "result"
_UNTYPED: Final = (MISSING, Any, None, type(None), object)
# Results that are collected before they are written.
_GENERATED: Final = (
    *(abc.Iterator, abc.Generator),
    *(abc.AsyncIterable, abc.AsyncIterator, abc.AsyncGenerator),
)
_CONTENT: Final[list[Callable[[TypeHint], bool]]] = []


def register_content(predicate: Callable[[TypeHint], bool]) -> None:
    """
    Say which hints promise content blocks besides the block types themselves.

    ``predicate`` is called with each part of a hint: a type, or the metadata of an ``Annotated``.
    """
    _CONTENT.append(predicate)


# The object around a result. A docstring would stand in every output schema.
class Result(BaseModel):
    model_config = CONFIG


_CORE_CONFIG: Final[CoreConfig] = cast(CoreNode, TypeAdapter(Result).core_schema)["config"]
_ANY: Final = SchemaSerializer(core_schema.tuple_schema([core_schema.any_schema()]), _CORE_CONFIG)


class Outputs:
    """
    The result of a function.

    ``schema`` is the output schema, whose root is an object, or None where the hint promises no
    structured result. ``errors`` are sentences on a hint that pydantic cannot read. ``returns`` is
    the hint, as a list where it is of a generator. ``is_content`` says that it promises content
    blocks. ``serializer`` writes a tuple of one result; ``is_wrapped`` says whether the schema is
    of a wrapper (None: the value decides). ``description`` is the docstring's, for a hint without.
    """

    def __init__(self, returns: TypeHint, description: str = "") -> None:
        if origin_of(returns) in _GENERATED:
            returns = list[get_args(returns)[0]]  # type: ignore[misc]
        self.returns = returns
        self.errors: list[str] = []
        self.schema: JsonSchemaValue | None = None
        self.is_content = _is_content(returns)
        self.is_wrapped: bool | None = None
        self._hint: TypeHint = Any
        self.serializer = _ANY
        self._schemas: tuple[CoreNode, JsonSchemaValue] | None = None
        if any(returns is each for each in _UNTYPED) or self.is_content:
            return
        try:
            with ignore_readonly_warnings():
                inner = core_schema_of(adapt(returns, "result"), CONFIG, "result")
            core = change_root(inner, _in_wrapper)
            whole = generate(core, "serialization")
            self.serializer = serializer(change_root(inner, _in_tuple), _CORE_CONFIG)
        except Exception as exception:
            self.errors.append(f"the return hint is not one that pydantic reads: {exception}")
            return
        self._hint = returns
        self._schemas = (core, whole)
        self.schema, self.is_wrapped = _unwrapped(whole, description)

    @functools.cached_property
    def check(self) -> Callable[[bytes], object]:
        """Raises ValueError for a result, as JSON text in its wrapper, that breaks the schema."""
        # Made when the first result comes: half of the tools of a process may never be called.
        return bytes if self._schemas is None else _checker(*self._schemas)

    def conform(self, value: object) -> object:
        """Return a value as the hint has it, such as an instance for a dict; or the same value."""
        return conform_to_hint(self._hint, value)


def _checker(core: CoreNode, schema: JSONSchema) -> Callable[[bytes], object]:
    """
    Return a check of results: by pydantic where that can (it is fast), else by jsonschema.

    It cannot where a result is written in another way than an argument is read (aliases, computed
    fields, serializers), nor where reading it would run validators of the site's own again.
    """
    try:
        if not has_own_code(core) and _comparable(generate(core, "validation")) == _comparable(
            schema
        ):
            return strict_validator(core).validate_json
    except PydanticInvalidForJsonSchema:
        # It can be written, and not be read.
        pass
    validator = Linear({**schema}, registry=Registry())
    return lambda whole: validator.validate(json.loads(whole))


def _comparable(schema: object) -> object:
    """Return a schema without the keywords by which a result and an argument may differ."""
    if isinstance(schema, Mapping):
        left_out = ("required", "default", "readOnly", "writeOnly")
        return {key: _comparable(each) for key, each in schema.items() if key not in left_out}
    return list(map(_comparable, schema)) if isinstance(schema, list) else schema


def _in_tuple(core: CoreNode) -> CoreNode:
    # The root of a serializer takes no config, but the items of a tuple do.
    return {"type": "tuple", "items_schema": [core]}


def _in_wrapper(core: CoreNode) -> CoreNode:
    fields = {"type": "model-fields", "fields": {WRAPPER: {"type": "model-field", "schema": core}}}
    return {"type": "model", "cls": Result, "schema": fields, "config": _CORE_CONFIG}


def _unwrapped(whole: JsonSchemaValue, description: str) -> tuple[JsonSchemaValue, bool]:
    """
    Return the schema of the result itself where that is an object, else of its wrapper.

    The description is for a hint that has none. The second value says whether it is wrapped.
    """
    inner = dict(whole["properties"][WRAPPER])
    if description:
        inner = {"description": description, **inner}
    definitions = whole.get("$defs", {})
    name = str(inner.get("$ref", "")).removeprefix("#/$defs/")
    opened = {**definitions[name], **inner} if name else {**inner}
    opened.pop("$ref", None)
    if opened.get("type") != "object":
        return {**whole, "properties": {WRAPPER: inner}}, True
    return {**opened, **({"$defs": definitions} if definitions else {})}, False


def _is_content(hint: TypeHint) -> bool:
    """Return whether a hint promises content blocks, which no output schema describes."""
    origin = origin_of(hint)
    if origin in (*UNIONS, list, tuple, abc.Iterable, Annotated):
        return any(_is_content(each) for each in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, ContentBlock | CallToolResult):
        return True
    return any(promises(hint) for promises in _CONTENT)
