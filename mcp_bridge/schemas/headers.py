"""
Parameters that a client repeats in HTTP headers, so that a proxy can route by them unread.

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

# A token of RFC 9110, section 5.6.2, without the underscore: to a WSGI application it looks like
# a hyphen, which is why most servers drop a header that has one.
_TOKEN: Final = re.compile(r"[!#$%&'*+.^`|~0-9A-Za-z-]+")
_TYPES: Final = ("string", "integer", "boolean")

_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class McpHeader:
    """
    Mark a parameter that clients repeat in the header ``Mcp-Param-{name}``.

    Used as ``region: Annotated[str, McpHeader("Region")]``. Headers are logged on their way: mark
    nothing secret. The parameter is a string, an integer or a boolean, without null, and so is the
    object that it is a member of.
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
    """Return the path of each parameter by its name. Raises ValueError where a rule is broken."""
    found: dict[str, _Path] = {}
    for path, each in _positions(schema, ()):
        if KEYWORD not in each:
            continue
        name = each[KEYWORD]
        if not path:
            raise ValueError(
                f"{KEYWORD} {name!r} stands where a value has no one place: it may stand on a "
                "property, and on a property of an object that is one, and nowhere else: not in "
                "what may be null, nor in one of several kinds"
            )
        where = f"{KEYWORD} {name!r} of {'.'.join(path)!r}"
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            text = "cannot be part of a header's name; give it letters, digits and hyphens"
            raise ValueError(f"{where} {text}")
        kinds = each.get("type", [part.get("type") for part in each.get("anyOf", ())])
        if kinds not in _TYPES:
            raise ValueError(
                f"{where}: its type is {kinds!r}, and only a string, an integer or a "
                "boolean can be in a header; instead of null, give it a default"
            )
        if name.lower() in map(str.lower, found):
            raise ValueError(f"{KEYWORD} {name!r} stands on more than one parameter")
        found[name] = path
    return found


def _positions(schema: JSONSchema, path: _Path | None) -> Iterator[tuple[_Path | None, JSONSchema]]:
    """Yield each schema in a schema, with its path, or None if more than properties leads to it."""
    yield path, schema
    for part in subschemas(schema):
        if isinstance(part.schema, Mapping):
            name = str(part.key)
            below = None if path is None or part.keyword != "properties" else (*path, name)
            yield from _positions(part.schema, below)
