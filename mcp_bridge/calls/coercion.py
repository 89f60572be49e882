"""
Arguments that came as strings of JSON, decoded.

Several clients send strings of JSON where the schema wants an object or an array. These are only
looked for in arguments that were refused: with the setting COERCE_STRINGIFIED they are decoded and
checked again, and without it the error says what to send. No string is decoded where the schema may
mean a string.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from mcp_bridge.conf import conf
from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.features import Tool
from mcp_bridge.protocol import JSONObject, JSONSchema, ProtocolError, jsonrpc
from mcp_bridge.protocol.text import pointer
from mcp_bridge.schemas.walk import SchemaDocument

# More values are not decoded: it would cost seconds.
MOST_VALUES_READ: Final = 10_000
_ANYTHING: Final = frozenset({"null", "boolean", "number", "string", "object", "array"})
_KINDS: Final = {dict: "object", list: "array", str: "string", type(None): "null", bool: "boolean"}
# The schema of values of which no schema says anything.
_OPEN: Final[JSONSchema] = {}


def repair(
    tool: Tool, arguments: JSONObject, refused: InvalidArguments
) -> tuple[dict[str, object], tuple[str, ...]]:
    """
    Check refused arguments again, with those decoded that came as strings of JSON.

    Return what ``tool.check`` returns, and JSON pointers to the arguments that were decoded. Raises
    InvalidArguments: ``refused`` where none was, or with advice where the site does not decode.
    """
    decoded, found = decode_strings(tool, arguments)
    if not found:
        raise refused
    if not conf.COERCE_STRINGIFIED:
        advice = {
            path: f"; send the {kind} itself, not a string of JSON" for path, kind in found.items()
        }
        errors = [
            replace(error, message=error.message + advice.get(error.path, ""))
            for error in refused.errors
        ]
        raise InvalidArguments(errors) from None
    try:
        return tool.check(decoded), tuple(found)
    except InvalidArguments as again:
        raise InvalidArguments(again.errors, repaired=tuple(found)) from None


def decode_strings(tool: Tool, arguments: JSONObject) -> tuple[JSONObject, dict[str, str]]:
    """Return the arguments with strings of JSON decoded, and what these were, as ``Decoding``."""
    decoding = Decoding(_document(tool))
    return decoding.decode(arguments), decoding.found


@lru_cache(maxsize=256)
def _document(tool: Tool) -> SchemaDocument:
    return SchemaDocument(tool.input_schema)


class Decoding:
    """
    Decodes the strings in arguments that a JSON Schema wants as objects or arrays.

    ``found`` has, by JSON pointer, which of the two each of them was.
    """

    def __init__(self, document: SchemaDocument) -> None:
        self.found: dict[str, str] = {}
        self._document = document
        # Of values, and of the schemas that are found for them.
        self._left = MOST_VALUES_READ
        self._most_prefixed = max(
            (len(each.get("prefixItems", ())) for each in document.subschemas), default=0
        )
        # By identity, so that schemas that hold themselves end, and no schema is read twice. All
        # live as long: in the document, in _members, or as _OPEN.
        self._kinds: dict[int, frozenset[str]] = {}
        self._members: dict[tuple[int, str | int], object] = {}

    def decode(self, arguments: JSONObject) -> JSONObject:
        """Return the arguments, decoded where they have to be."""
        decoded: JSONObject = self._decoded((), self._document.root, arguments)
        return decoded

    def _decoded(self, place: tuple[str | int, ...], schema: object, value: object) -> Any:
        if isinstance(value, str):
            value = self._read(place, schema, value)

        def member(key: str | int, each: object) -> object:
            if not isinstance(each, str | Mapping | list):
                return each
            self._left -= 1
            if self._left < 0 or len(place) >= jsonrpc.MAX_DEPTH:
                return each
            return self._decoded((*place, key), self._member(schema, key), each)

        if isinstance(value, Mapping):
            return {key: member(key, each) for key, each in value.items()}
        if isinstance(value, list):
            return [member(index, each) for index, each in enumerate(value)]
        return value

    def _read(self, place: tuple[str | int, ...], schema: object, text: str) -> object:
        if not text.lstrip().startswith(("{", "[")) or "string" in self._kinds_of(schema):
            return text
        try:
            value: object = jsonrpc.decode(text.encode("utf-8"))
        except (ProtocolError, UnicodeError):
            return text
        kind = _KINDS[type(value)]
        if kind not in self._kinds_of(schema):
            return text
        self.found[pointer(place)] = kind
        return value

    def _kinds_of(self, schema: object) -> frozenset[str]:
        """Return the types that a schema may accept; in doubt, all of them."""
        if not isinstance(schema, Mapping):
            return frozenset() if schema is False else _ANYTHING
        if id(schema) in self._kinds:
            return self._kinds[id(schema)]
        # What a schema that holds itself is, as long as it is being read.
        self._kinds[id(schema)] = kinds = _ANYTHING
        if "type" in schema:
            named = schema["type"]
            kinds &= {named} if isinstance(named, str) else set(named)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if values is not None:
            kinds &= {_KINDS.get(type(each), "number") for each in values}
        for branches in self._choices(schema):
            kinds &= frozenset().union(*map(self._kinds_of, branches))
        self._kinds[id(schema)] = kinds
        return kinds

    def _member(self, schema: object, key: str | int) -> object:
        """Return a schema of a member of an object, or an item of an array, of this schema."""
        if not isinstance(schema, Mapping):
            return _OPEN
        if isinstance(key, int):
            # Items beyond those that have schemas of their own are all alike.
            key = min(key, self._most_prefixed)
        known = (id(schema), key)
        if known in self._members:
            return self._members[known]
        self._left -= 1
        if self._left < 0:
            return _OPEN
        self._members[known] = _OPEN
        first = schema.get("prefixItems", ())
        if isinstance(key, str):
            own = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
        else:
            own = first[key] if key < len(first) else schema.get("items", {})
        parts: list[object] = [own]
        for branches in self._choices(schema):
            members = [self._member(each, key) for each in branches]
            parts.append(members[0] if len(members) == 1 else {"anyOf": members})
        meant = [each for each in parts if each or each is False]
        self._members[known] = meant[0] if len(meant) == 1 else {"allOf": meant}
        return self._members[known]

    def _choices(self, schema: JSONSchema) -> Iterator[list[object]]:
        """Yield lists of schemas; the value has to fit one schema of each list."""
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                yield schema[keyword]
        for each in (*schema.get("allOf", ()), *self._document.targets(schema).values()):
            yield [each]
