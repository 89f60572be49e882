"""What a tool returned, as a CallToolResult."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema
from referencing import Registry

from mcp_bridge.protocol import jsonrpc
from mcp_bridge.protocol.content import CallToolResult, ContentBlock, TextContent
from mcp_bridge.schemas import Outputs

Encoder = Callable[[Any], CallToolResult]

# Every digit as 0, to find a run of them without a pattern.
_ZEROS = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
_MANY = b"0" * jsonrpc.MAX_DIGITS


def encoder(outputs: Outputs) -> Encoder:
    """
    An encoder for values of a return hint.

    Content blocks go out as they are. Any other value is written once: as the text block, and as
    ``structuredContent``, wrapped as ``{"result": value}`` where it is no object. The encoder
    raises ValueError or TypeError for a value that is no JSON or not what the hint says.
    """

    def encode(value: Any) -> CallToolResult:
        result = _as_content(value, outputs)
        if result is None:
            plain, structured = outputs.dump(value)
            result = CallToolResult(content=[TextContent(_text(plain))], structured=structured)
        elif outputs.schema is not None:
            _promised(result)
        if result.structured is not None:
            _check_numbers(result.structured)
        return result

    return encode


def _as_content(value: Any, outputs: Outputs) -> CallToolResult | None:
    """Content blocks as a result, or None for any other value."""
    if isinstance(value, CallToolResult):
        return value
    if isinstance(value, ContentBlock):
        return CallToolResult(content=[value])
    several = isinstance(value, list | tuple) and (value or outputs.is_content)
    if several and all(isinstance(each, ContentBlock) for each in value):
        return CallToolResult(content=list(value))
    return None


def _promised(result: CallToolResult) -> None:
    if result.structured is None and not result.is_error:
        raise ValueError("the output schema promises a structured result, and there is none")


def schema_encoder(schema: Mapping[str, Any], inner: Encoder) -> Encoder:
    """
    An encoder that also holds the structured result to a JSON Schema given by hand.

    Raises jsonschema's SchemaError where the schema itself is not valid; the encoder raises
    ValueError for a result that breaks it.
    """
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema, registry=Registry())

    def encode(value: Any) -> CallToolResult:
        result = inner(value)
        _promised(result)
        if result.structured is not None:
            error = jsonschema.exceptions.best_match(
                validator.iter_errors(json.loads(result.structured))
            )
            if error is not None:
                raise ValueError(f"the result breaks the output schema: {error.message}")
        return result

    return encode


def _text(plain: bytes) -> str:
    """A JSON string is its own text; everything else is shown as JSON."""
    return str(json.loads(plain)) if plain.startswith(b'"') else plain.decode("utf-8")


def _check_numbers(written: bytes) -> None:
    """Refuse what pydantic writes and no client reads: NaN, the infinities, endless integers."""
    if b"NaN" in written or b"Infinity" in written or _MANY in written.translate(_ZEROS):
        json.loads(written, parse_constant=_refuse, parse_int=_refuse_long)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")


def _refuse_long(digits: str) -> None:
    if len(digits) > jsonrpc.MAX_DIGITS:
        raise ValueError(f"an integer has more than {jsonrpc.MAX_DIGITS} digits")
