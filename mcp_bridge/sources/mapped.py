"""Tools made of mapped operations, for any source whose views OpenAPI describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcp_bridge.calls.arguments import plain_checker
from mcp_bridge.calls.results import encoder
from mcp_bridge.features import Tool, ToolCall, ToolOptions
from mcp_bridge.protocol import CallToolResult, JSONSchema
from mcp_bridge.schemas import Outputs, Signature
from mcp_bridge.schemas.signatures import MISSING
from mcp_bridge.sources.marked import MarkedFunction, precheck_of
from mcp_bridge.sources.operations.mapping import MappedOperation


def operation_tool(
    name: str,
    mapped: MappedOperation,
    options: ToolOptions,
    /,
    *,
    invoke: Callable[[ToolCall], Any],
    hints: Mapping[str, bool],
    **others: Any,
) -> Tool:
    """
    Return the tool of an operation, under the options of its mark.

    ``invoke`` returns a CallToolResult. ``hints`` are those of the source, under those of the mark;
    ``others`` are further fields of Tool. Raises ValueError for a precheck that takes what the tool
    does not.
    """
    schema, promised = options.input_schema or mapped.input_schema, options.output_schema
    return Tool(
        name=name,
        title=mapped.title if options.title is None else options.title,
        description=mapped.description if options.description is None else options.description,
        input_schema=schema,
        output_schema=promised or mapped.output_schema,
        annotations={**({} if options.read_only else hints), **options.annotations},
        icons=options.icons,
        meta={**(mapped.meta or {}), **(options.meta or {})} or None,
        # Services accept more than a format allows, such as times without seconds or an offset.
        check=plain_checker(schema, asserts_formats=options.input_schema is not None),
        invoke=invoke,
        encode=_same if promised is None else encoder(Outputs(CallToolResult), promised),
        precheck=_precheck(options, schema),
        options=options,
        **others,
    )


def _same(result: CallToolResult) -> CallToolResult:
    return result


def _precheck(options: ToolOptions, schema: JSONSchema) -> Callable[[ToolCall], object] | None:
    """Return the precheck of a mark, which is given those arguments that it takes."""
    function = options.precheck
    if function is None:
        return None
    own, members = Signature.of(function), schema.get("properties", {})
    # What is not sent is the schema's default, or None, but for what the precheck has one itself.
    needed = {each.name for each in own.parameters if each.default is MISSING}
    defaults = {
        name: each.get("default") if name in needed else MISSING for name, each in members.items()
    }
    invoke = MarkedFunction("precheck", function, ToolOptions()).invoker(function, own)
    return precheck_of(own, defaults, invoke)
