"""A return hint as a pydantic model: the output schema, and the result as JSON."""

from __future__ import annotations

import types
import typing
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaSerializer

from mcp_bridge.protocol.content import CallToolResult, ContentBlock
from mcp_bridge.schemas.generator import generate
from mcp_bridge.schemas.inputs import CONFIG
from mcp_bridge.schemas.signatures import MISSING

# The member that holds a result which is no object (decided for every revision alike).
WRAPPER: Final = "result"
_OPENING: Final = b'{"result":'
_UNTYPED: Final = (MISSING, Any, None, type(None), object)


class Outputs:
    """
    What a function gives back, and what its docstring says of that.

    ``schema`` is the output schema, whose root is an object, or None where the hint promises no
    structured result. ``problems`` are sentences on a hint that pydantic cannot read.
    """

    def __init__(self, returns: Any, description: str = "") -> None:
        self.problems: list[str] = []
        self.schema: dict[str, Any] | None = None
        self._wrapped: bool | None = None
        self._serializer = _serializer(Any)
        if any(returns is each for each in _UNTYPED) or _is_content(returns):
            return
        try:
            serializer = _serializer(returns)
            whole = generate(_model(returns), "serialization")
        except (PydanticUserError, TypeError) as exception:
            self.problems.append(f"the return hint is not one that pydantic reads: {exception}")
            return
        if description:
            whole["properties"][WRAPPER].setdefault("description", description)
        self._serializer = serializer
        self.schema, self._wrapped = _unwrapped(whole)

    def dump(self, value: Any) -> tuple[bytes, bytes]:
        """
        The value as JSON text, plain and as ``structuredContent`` (an object always).

        Raises ValueError or TypeError where it is not what the hint says, or is no JSON.
        """
        plain = self._serializer.to_json((value,), warnings="error")[1:-1]
        wrapped = not plain.startswith(b"{") if self._wrapped is None else self._wrapped
        return plain, _OPENING + plain + b"}" if wrapped else plain


def _serializer(hint: Any) -> SchemaSerializer:
    # In a tuple, since a class with a config of its own takes none from a TypeAdapter.
    adapter: TypeAdapter[Any] = TypeAdapter(tuple[hint], config=CONFIG)
    serializer = adapter.serializer
    assert isinstance(serializer, SchemaSerializer)
    return serializer


def _model(hint: Any) -> type[BaseModel]:
    return create_model("Result", __config__=CONFIG, result=(hint, ...))


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
    if origin in (typing.Union, types.UnionType, list, tuple, Annotated):
        return any(_is_content(each) for each in get_args(hint))
    return isinstance(hint, type) and issubclass(hint, ContentBlock | CallToolResult)
