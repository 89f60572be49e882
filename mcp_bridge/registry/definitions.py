"""The definitions of tools as clients get them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from mcp_bridge.conf import conf
from mcp_bridge.features import Tool
from mcp_bridge.protocol import Revision
from mcp_bridge.schemas.walk import change_subschemas

_NULL: Final = {"type": "null"}


def sent_definition(tool: Tool, revision: Revision) -> dict[str, Any]:
    """Return a tool's definition as clients get it, in the site's SCHEMA_STYLE."""
    definition = tool.definition(revision)
    if conf.SCHEMA_STYLE == "google":
        for name in definition.keys() & {"inputSchema", "outputSchema"}:
            # A source of the site's own may have anything for a schema.
            with suppress(AttributeError, TypeError):
                definition[name] = _for_google(definition[name])
    return definition


def _for_google(schema: Any) -> Any:
    """Return a schema as google-genai reads it, without what it refuses, wherever it stands."""
    if not isinstance(schema, Mapping):
        return schema
    result = change_subschemas(schema, _for_google)
    result.pop("contentEncoding", None)
    if isinstance(result.get("additionalProperties"), bool):
        del result["additionalProperties"]
    branches = result.get("anyOf", ())
    if len(branches) == 2 and _NULL in branches:
        # It drops what stands beside these branches.
        keys = ("description", "title", "default")
        beside = {key: result[key] for key in keys if result.get(key) is not None}
        result["anyOf"] = [each if each == _NULL else {**beside, **each} for each in branches]
    return result
