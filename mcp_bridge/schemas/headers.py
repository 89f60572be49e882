"""
Parameters that a client repeats in HTTP headers, so that proxies can route by them.

See MCP 2026-07-28, "Streamable HTTP", "Custom headers from tool parameters": the input schema
names the header in ``x-mcp-header``, and clients drop a tool that breaks the rules for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from mcp_bridge.protocol import JSONSchema
from mcp_bridge.schemas.walk import subschemas

KEYWORD: Final = "x-mcp-header"

# A token of RFC 9110, section 5.6.2, without the underscore: WSGI cannot distinguish it from a
# hyphen, so most servers drop headers that contain one.
_TOKEN: Final = re.compile(r"[!#$%&'*+.^`|~0-9A-Za-z-]+")
_TYPES: Final = ("string", "integer", "boolean")

_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class McpHeader:
    """
    Mark a parameter that clients repeat in the header ``Mcp-Param-{name}``.

    Used as ``region: Annotated[str, McpHeader("Region")]``. Headers are logged in transit: do not
    mark secrets. The parameter must be a string, an integer or a boolean. Neither it nor an object
    that contains it may be null.
    """

    name: str

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        if handler.mode == "validation":
            schema[KEYWORD] = self.name
        return schema


def header_parameters(schema: JSONSchema) -> dict[str, _Path]:
    """Return the path of each parameter by header name. Raises ValueError for a broken rule."""
    found: dict[str, _Path] = {}
    for path, each in _positions(schema, ()):
        if KEYWORD not in each:
            continue
        name = each[KEYWORD]
        if not path:
            raise ValueError(
                f"{KEYWORD} {name!r} is at a place without a fixed path: it is allowed only on a "
                "property, or on a property of an object that is a property, and not within a "
                "union or a value that may be null"
            )
        where = f"{KEYWORD} {name!r} of {'.'.join(path)!r}"
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            text = "cannot be part of a header name; use letters, digits and hyphens"
            raise ValueError(f"{where} {text}")
        kinds = each.get("type", [part.get("type") for part in each.get("anyOf", ())])
        if kinds not in _TYPES:
            raise ValueError(
                f"{where}: its type is {kinds!r}, but a header must be a string, an integer or a "
                "boolean; instead of null, set a default"
            )
        if name.lower() in map(str.lower, found):
            raise ValueError(f"{KEYWORD} {name!r} is set on more than one parameter")
        found[name] = path
    return found


def _positions(schema: JSONSchema, path: _Path | None) -> Iterator[tuple[_Path | None, JSONSchema]]:
    """Yield each schema in a schema with its path, or None if it is not only via properties."""
    yield path, schema
    for part in subschemas(schema):
        if isinstance(part.schema, Mapping):
            below = None if path is None or part.keyword != "properties" else (*path, str(part.key))
            yield from _positions(part.schema, below)
