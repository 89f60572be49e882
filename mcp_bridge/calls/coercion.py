"""
Arguments that came as strings of JSON, where the schema wants an object or an array.

Several clients send them so. They are only looked for in arguments that were refused: with the
setting COERCE_STRINGIFIED they are decoded and checked again, and without it the error says what
to send. No string is decoded where the schema may mean a string.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from mcp_bridge.conf import conf
from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.features import Tool
from mcp_bridge.protocol import JSONObject, JSONSchema, ProtocolError, jsonrpc
from mcp_bridge.protocol.text import pointer
from mcp_bridge.schemas.walk import SchemaDocument

# Of more values than that the rest stays as it is: looking at them would cost seconds.
MOST_READ: Final = 10_000
_ANYTHING: Final = frozenset({"null", "boolean", "number", "string", "object", "array"})
_KINDS: Final = {dict: "object", list: "array", str: "string", type(None): "null", bool: "boolean"}


def repair(
    tool: Tool, arguments: JSONObject, refused: InvalidArguments
) -> tuple[dict[str, object], tuple[str, ...]]:
    """
    Check refused arguments again, with those decoded that came as strings of JSON.

    Return what ``tool.check`` returns, and JSON pointers to the arguments that were decoded. Raises
    InvalidArguments: ``refused`` where none was, or with advice where the site does not decode.
    """
    decoding = Decoding(_document(tool))
    decoded = decoding.decode(arguments)
    found = decoding.found
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
    repaired = tuple(found)
    try:
        return tool.check(decoded), repaired
    except InvalidArguments as again:
        raise InvalidArguments(again.errors, repaired=repaired) from None


@lru_cache(maxsize=256)
def _document(tool: Tool) -> SchemaDocument:
    return SchemaDocument(tool.input_schema)


class Decoding:
    """
    Decodes the strings in arguments that a JSON Schema wants as objects or arrays.

    ``found`` has the kinds of those that were decoded, "object" or "array", by JSON pointer.
    """

    def __init__(self, document: SchemaDocument) -> None:
        self.found: dict[str, str] = {}
        self._document = document
        self._left = MOST_READ
        # By identity, so that schemas that hold themselves end, and no schema is read twice. The
        # schemas are kept with their values: an id is one only while its object lives.
        self._kinds: dict[int, tuple[object, frozenset[str]]] = {}
        self._members: dict[tuple[int, str | int], tuple[object, object]] = {}

    def decode(self, arguments: JSONObject) -> dict[str, object]:
        """Return the arguments, decoded where they have to be."""
        root = self._document.root
        return {name: self._within((), root, name, each) for name, each in arguments.items()}

    def _value(self, place: tuple[str | int, ...], schema: object, value: object) -> object:
        if isinstance(value, str):
            value = self._decoded(place, schema, value)
        if isinstance(value, Mapping):
            return {key: self._within(place, schema, key, each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._within(place, schema, key, each) for key, each in enumerate(value)]
        return value

    def _within(
        self, place: tuple[str | int, ...], schema: object, key: str | int, value: object
    ) -> object:
        if not isinstance(value, str | Mapping | list):
            return value
        self._left -= 1
        if self._left < 0 or len(place) >= jsonrpc.MAX_DEPTH:
            return value
        return self._value((*place, key), self._member(schema, key), value)

    def _decoded(self, place: tuple[str | int, ...], schema: object, text: str) -> object:
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
            return self._kinds[id(schema)][1]
        # What a schema that holds itself is, as long as it is being read.
        self._kinds[id(schema)] = (schema, _ANYTHING)
        kinds = _ANYTHING
        if "type" in schema:
            named = schema["type"]
            kinds &= {named} if isinstance(named, str) else set(named)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if values is not None:
            kinds &= {_KINDS.get(type(each), "number") for each in values}
        for branches in self._choices(schema):
            kinds &= frozenset().union(*map(self._kinds_of, branches))
        self._kinds[id(schema)] = (schema, kinds)
        return kinds

    def _member(self, schema: object, key: str | int) -> object:
        """Return a schema of a member of an object, or an item of an array, of this schema."""
        if not isinstance(schema, Mapping):
            return {}
        known = (id(schema), key)
        if known in self._members:
            return self._members[known][1]
        self._members[known] = (schema, {})
        first = schema.get("prefixItems", ())
        own: object
        if isinstance(key, str):
            own = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
        else:
            own = first[key] if key < len(first) else schema.get("items", {})
        parts = [own]
        for branches in self._choices(schema):
            members = [self._member(each, key) for each in branches]
            parts.append(members[0] if len(members) == 1 else {"anyOf": members})
        meant = [each for each in parts if each or each is False]
        member = meant[0] if len(meant) == 1 else {"allOf": meant}
        self._members[known] = (schema, member)
        return member

    def _choices(self, schema: JSONSchema) -> Iterator[list[object]]:
        """Yield lists of schemas; the value has to fit one schema of each list."""
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                yield schema[keyword]
        for each in (*schema.get("allOf", ()), *self._document.targets(schema).values()):
            yield [each]
