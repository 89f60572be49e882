"""Convert the value that a tool returned to a CallToolResult."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from django.utils.functional import Promise
from pydantic_core import to_json

from mcp_bridge.calls import media
from mcp_bridge.protocol import CallToolResult, ContentBlock, JSONSchema, TextContent, jsonrpc
from mcp_bridge.protocol.text import pointer
from mcp_bridge.schemas import Outputs

if TYPE_CHECKING:
    from mcp_bridge.schemas.validation import SchemaValidator

# Types whose values are not iterators that can be read only once, and do not contain one.
_READ_AGAIN: Final = frozenset({str, int, float, bool, type(None), bytes, list})
# Hints whose instances, except for the largest integers, always match the generated schema.
_SCALARS: Final = (str, int, bool)
_MOST: Final = 2**63


def encoder(outputs: Outputs, schema: JSONSchema | None = None) -> Callable[[Any], CallToolResult]:
    """
    Return an encoder for values of a return hint and, if given, of an explicit JSON Schema.

    Content blocks are sent unchanged, files and images as blocks, and other values in the same list
    as text. Any other value is serialised once, as the text block and as ``structuredContent``,
    wrapped in ``{"result": value}`` if it is not an object. Raises ValueError for a hint that names
    several media types, and for a schema that cannot be enforced within bounds. The encoder raises
    ValueError or TypeError for a value that is too complex, is not JSON or breaks hint or schema.
    """
    media_type = media.media_type_in(outputs.returns)
    validator: SchemaValidator | None = None
    if schema is not None:
        # Imported here: jsonschema is slow to import, and few sites write schemas themselves.
        from mcp_bridge.schemas.validation import SchemaValidator

        validator = SchemaValidator(schema, "output_schema")
    is_promised = validator is not None or outputs.schema is not None

    # Compared by identity, since a hint may be any object.
    is_scalar = any(each is outputs.returns for each in _SCALARS)
    is_scalar = is_scalar and outputs.schema is not None and validator is None
    scalar = outputs.returns if is_scalar else None

    def encode(value: Any) -> CallToolResult:
        # A subclass may serialise differently, and an integer may have too many digits.
        if type(value) is scalar and (scalar is not int or -_MOST <= value <= _MOST):
            plain = to_json(value)
            text = value if scalar is str else plain.decode()
            return CallToolResult.of_json(text, plain, b'{"result":' + plain + b"}")
        result = _as_content(value, outputs, media_type)
        if result is None:
            plain, structured = write(outputs, value)
            result = CallToolResult.of_json(_text(plain), plain, structured)
        elif is_promised and result.structured is None and not result.is_error:
            raise ValueError("the output schema requires a structured result, but there is none")
        if validator is not None and result.structured is not None:
            _check_schema(validator, result)
        return result

    return encode


def write(outputs: Outputs, value: object) -> tuple[bytes, bytes]:
    """
    Return a result as JSON text, plain and as ``structuredContent`` (always an object).

    Raises ValueError or TypeError for a value that breaks the schema or is not JSON.
    """
    to_json = outputs.serializer.to_json
    if holds_iterator(value):
        # pydantic would start to consume it, even if it cannot serialise the items.
        value = outputs.conform(value)
    try:
        plain = to_json((value,), **_OPTIONS)[1:-1]
    except Exception:
        # Most results serialise as they are; checking all of them first would cost more.
        read = outputs.conform(value, is_read=True)
        if read is value:
            raise
        plain = to_json((read,), **_OPTIONS)[1:-1]
    whole = b'{"result":' + plain + b"}"
    outputs.check(whole)
    _check_numbers(whole)
    is_wrapped = outputs.is_wrapped
    if is_wrapped is None:
        is_wrapped = not plain.startswith(b"{")
    return plain, whole if is_wrapped else plain


def _text_of_lazy(value: object) -> str:
    """Return a lazy string in the request's language. Raises TypeError for any other value."""
    if isinstance(value, Promise):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type")


# Without pydantic's warnings, which cost more than everything else; our check is stricter.
_OPTIONS: Final[Any] = {"warnings": False, "by_alias": True, "fallback": _text_of_lazy}


def holds_iterator(value: object) -> bool:
    """Return whether a result, or one of its members, can be iterated only once."""
    if type(value) in _READ_AGAIN:
        return False
    members: list[object] = []
    if isinstance(value, Mapping):
        members += value.values()
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        members += value
    elif not isinstance(value, list | tuple | str | bytes):
        members += getattr(value, "__dict__", {}).values()
        members += [getattr(value, name, None) for name in getattr(type(value), "__slots__", ())]
    others = [each for each in (value, *members) if type(each) not in _READ_AGAIN]
    return any(isinstance(each, Iterator) for each in others)


def _as_content(value: Any, outputs: Outputs, media_type: str) -> CallToolResult | None:
    """Return content blocks as a result, or None for any other value."""
    if isinstance(value, CallToolResult):
        if value.structured is None:
            return value
        # Serialised once; models of a revision without structured content read it as text.
        written = value.structured
        if not isinstance(written, bytes):
            written = jsonrpc.encode(written)
        _check_numbers(written)
        content = value.content or [TextContent(written.decode())]
        return replace(value, content=content, structured=written)
    values = value if isinstance(value, list | tuple) else (value,)
    # Look at types rather than values: lists are long and contain few types.
    kinds: set[Any] = {*map(type, values)}
    blocks = {kind for kind in kinds if issubclass(kind, ContentBlock)}
    is_media = outputs.schema is None and bool(blocks or any(map(media.reader, kinds)))
    if not (outputs.is_content or is_media or blocks and blocks == kinds):
        return None
    content = [_block(each, number, outputs, media_type) for number, each in enumerate(values, 1)]
    return CallToolResult(content=content)


def _block(value: Any, number: int, outputs: Outputs, media_type: str) -> ContentBlock:
    """Return one value as a block: as text unless it is a file, an image or bytes."""
    if isinstance(value, ContentBlock):
        return value
    kind: Any = type(value)
    read = media.reader(kind)
    found = (value, media_type, "") if isinstance(value, bytes) else read and read(value)
    return media.block(found, number) if found else TextContent(_text(write(outputs, value)[0]))


def _check_schema(validator: SchemaValidator, result: CallToolResult) -> None:
    from mcp_bridge.schemas.validation import UncheckableError

    try:
        errors = validator.errors(result.structured_content)
    except UncheckableError as why:
        raise ValueError(f"the result {why}") from why
    if errors:
        place = pointer(errors[0].path) or "/"
        raise ValueError(f"the result breaks the output schema at {place}: {errors[0].message}")


def _text(plain: bytes) -> str:
    """Return the text of a JSON string; any other value as JSON."""
    return str(json.loads(plain)) if plain.startswith(b'"') else plain.decode("utf-8")


def _check_numbers(written: bytes) -> None:
    """Raise ValueError for numbers that pydantic writes but clients cannot parse, such as NaN."""
    if b"NaN" in written or b"Infinity" in written or jsonrpc.has_long_number(written):
        json.loads(written, parse_constant=_check_number, parse_int=_check_number)


def _check_number(text: str) -> None:
    if text.endswith(("NaN", "Infinity")):
        raise ValueError(f"{text} is not a JSON number")
    if len(text) > jsonrpc.MAX_DIGITS:
        raise ValueError(f"an integer has more than {jsonrpc.MAX_DIGITS} digits")
