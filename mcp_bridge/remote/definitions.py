"""Read the definitions of remote tools: their names, annotations and schemas."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from mcp_bridge.conf import conf
from mcp_bridge.protocol import JSONObject, JSONSchema, jsonrpc
from mcp_bridge.protocol.text import cut
from mcp_bridge.schemas import header_parameters
from mcp_bridge.schemas.validation import SchemaValidator
from mcp_bridge.schemas.walk import SchemaDocument

MAX_SCHEMA_BYTES: Final = 64 * 1024
MAX_BYTES: Final = 160 * 1024
MAX_NAME: Final = 64
# MCP 2025-11-25, "Tools", "Tool names".
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
# Older dialects, whose schemas mean the same in 2020-12 unless they have one of these keywords.
_OLDER: Final = re.compile(r"https?://json-schema\.org/(draft-0[67]|draft/2019-09)/schema#?")
_CHANGED: Final = frozenset(
    {"additionalItems", "dependencies", "$recursiveRef", "$recursiveAnchor"}
)


def local_name(slug: str, remote_name: str) -> str:
    """
    Return the name of a remote tool on this site, always with the server's prefix.

    A name over 64 characters is cut, and ends with 8 digits of its SHA-256.
    """
    name = f"{slug}_{remote_name}"
    if conf.TOOL_NAME_STYLE != "dotted":
        name = name.replace(".", "_")
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(f"{slug}_{remote_name}".encode()).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}_{digest}"


def annotations_in(definition: JSONObject) -> dict[str, bool]:
    """Return the hints of a definition (MCP schema, ``ToolAnnotations``) that are booleans."""
    given = definition.get("annotations")
    given = given if isinstance(given, Mapping) else {}
    return {name: given[name] for name in _HINTS if isinstance(given.get(name), bool)}


def enforced_schema(schema: JSONSchema) -> JSONSchema:
    """
    Return an input schema as this site enforces it, in the dialect 2020-12.

    Raises ValueError for an older one with keywords that 2020-12 reads differently.
    """
    dialect = schema.get("$schema")
    if not isinstance(dialect, str) or not _OLDER.fullmatch(dialect):
        return schema
    for each in SchemaDocument(schema).subschemas:
        changed = _CHANGED & each.keys()
        if changed or isinstance(each.get("items"), list):
            keyword = min(changed, default="items")
            text = f"its inputSchema is of {dialect}; 2020-12 reads its {keyword!r} differently"
            raise ValueError(text)
    return {name: each for name, each in schema.items() if name != "$schema"}


def check_definition(definition: Mapping[str, Any]) -> None:
    """Raise ValueError, with the reason, for a tool that this site cannot serve."""
    name, schema = definition.get("name"), definition.get("inputSchema")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("its name is not 1 to 128 of A-Z a-z 0-9 _ . -")
    if not isinstance(schema, dict):
        raise ValueError("its inputSchema is not an object")
    for member in ("inputSchema", "outputSchema"):
        size = len(jsonrpc.encode(definition.get(member)))
        if size > MAX_SCHEMA_BYTES:
            raise ValueError(
                f"its {member} has {size} bytes; at most {MAX_SCHEMA_BYTES} are served"
            )
    size = len(jsonrpc.encode(definition))
    if size > MAX_BYTES:
        raise ValueError(f"its definition has {size} bytes; at most {MAX_BYTES} are served")
    if schema.get("type") != "object":
        raise ValueError("its inputSchema is not of the type object")
    output = definition.get("outputSchema")
    if output is not None and not isinstance(output, dict):
        raise ValueError("its outputSchema is not an object")
    SchemaValidator(enforced_schema(schema), "inputSchema", asserts_formats=False)
    try:
        header_parameters(schema)
    except ValueError as why:
        raise ValueError(f"its x-mcp-header breaks the rules: {cut(str(why), 200)}") from why
    execution = definition.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        raise ValueError("it runs only as a task, which this site does not relay")
