"""
Arguments that came as strings of JSON, where the schema wants an object or an array.

Several clients send them so. Nothing is looked for until the arguments were refused; then, with
the setting COERCE_STRINGIFIED, they are decoded and checked again, and without it the error says
what to send. Only where the schema cannot mean a string is one touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from mcp_bridge.conf import conf
from mcp_bridge.exceptions import ArgumentError, InvalidArguments
from mcp_bridge.features.tools import Tool
from mcp_bridge.protocol import ProtocolError, jsonrpc
from mcp_bridge.protocol.text import pointer

# Of more values than that the rest stays as it is: looking at them would cost seconds.
MOST_READ: Final = 10_000
_ANYTHING: Final = frozenset({"null", "boolean", "number", "string", "object", "array"})
_KINDS: Final = {dict: "object", list: "array", str: "string", type(None): "null", bool: "boolean"}


def checked(tool: Tool, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """
    What ``tool.check`` makes of the arguments, and pointers to those that had to be decoded.

    Raises InvalidArguments, and whatever else ``tool.check`` raises.
    """
    try:
        return tool.check(arguments), ()
    except InvalidArguments as refused:
        decoding = Decoding(tool.input_schema)
        decoded = decoding.value((), tool.input_schema, arguments)
        if not decoding.found:
            raise
        if not conf.COERCE_STRINGIFIED:
            raise InvalidArguments(_advised(refused.errors, decoding.found)) from None
    repaired = tuple(decoding.found)
    try:
        return tool.check(decoded), repaired
    except InvalidArguments as refused:
        raise InvalidArguments(refused.errors, repaired=repaired) from None


def _advised(errors: Iterable[ArgumentError], found: Mapping[str, str]) -> list[ArgumentError]:
    return [
        replace(
            error,
            message=f"{error.message}; send the {found[error.path]} itself, not a string of JSON",
        )
        if error.path in found
        else error
        for error in errors
    ]


class Decoding:
    """
    Decodes the strings in a value that a schema wants as objects or arrays.

    ``found`` has what they are, "object" or "array", by JSON pointer.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.found: dict[str, str] = {}
        self._root = root
        self._left = MOST_READ
        # By identity, so that schemas that hold themselves end, and no schema is read twice. The
        # schemas are kept with what is known of them: an id is one only while its object lives.
        self._kinds: dict[int, tuple[Any, frozenset[str]]] = {}
        self._members: dict[tuple[int, str | int], tuple[Any, Any]] = {}

    def value(self, place: tuple[str | int, ...], schema: Any, value: Any) -> Any:
        """The value at that place, decoded where it has to be."""
        if isinstance(value, str):
            value = self._decoded(place, schema, value)
        if isinstance(value, Mapping):
            return {key: self._within(place, schema, key, each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._within(place, schema, key, each) for key, each in enumerate(value)]
        return value

    def _within(self, place: tuple[str | int, ...], schema: Any, key: str | int, value: Any) -> Any:
        if not isinstance(value, str | Mapping | list):
            return value
        self._left -= 1
        if self._left < 0 or len(place) >= jsonrpc.MAX_DEPTH:
            return value
        return self.value((*place, key), self._member(schema, key), value)

    def _decoded(self, place: tuple[str | int, ...], schema: Any, text: str) -> Any:
        if not text.lstrip().startswith(("{", "[")) or "string" in self._kinds_of(schema):
            return text
        try:
            value = jsonrpc.decode(text.encode("utf-8"))
        except (ProtocolError, UnicodeError):
            return text
        kind = _KINDS[type(value)]
        if kind not in self._kinds_of(schema):
            return text
        self.found[pointer(place)] = kind
        return value

    def _kinds_of(self, schema: Any) -> frozenset[str]:
        """The types that a schema may accept; in doubt, all of them."""
        if not isinstance(schema, Mapping):
            return frozenset() if schema is False else _ANYTHING
        if id(schema) not in self._kinds:
            self._kinds[id(schema)] = (schema, _ANYTHING)
            self._kinds[id(schema)] = (schema, self._read_kinds(schema))
        return self._kinds[id(schema)][1]

    def _read_kinds(self, schema: Mapping[str, Any]) -> frozenset[str]:
        kinds = _ANYTHING
        if "type" in schema:
            named = schema["type"]
            kinds &= {named} if isinstance(named, str) else set(named)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if values is not None:
            kinds &= {_KINDS.get(type(each), "number") for each in values}
        for branches in _branches(schema):
            kinds &= frozenset().union(*map(self._kinds_of, branches))
        for each in (*schema.get("allOf", ()), *self._referred(schema)):
            kinds &= self._kinds_of(each)
        return kinds

    def _member(self, schema: Any, key: str | int) -> Any:
        """The schema of a member of an object or an array that has this schema."""
        if not isinstance(schema, Mapping):
            return {}
        known = (id(schema), key)
        if known not in self._members:
            self._members[known] = (schema, {})
            self._members[known] = (schema, self._read_member(schema, key))
        return self._members[known][1]

    def _read_member(self, schema: Mapping[str, Any], key: str | int) -> Any:
        parts = [_own_member(schema, key)]
        for branches in _branches(schema):
            parts.append({"anyOf": [self._member(each, key) for each in branches]})
        for each in (*schema.get("allOf", ()), *self._referred(schema)):
            parts.append(self._member(each, key))
        meant = [each for each in parts if each or each is False]
        return meant[0] if len(meant) == 1 else {"allOf": meant}

    def _referred(self, schema: Mapping[str, Any]) -> list[Any]:
        """The schema that a reference within the document leads to, as a list of one or none."""
        reference = schema.get("$ref")
        if reference is None:
            return []
        if not reference.startswith("#/"):
            return [self._root] if reference == "#" else []
        found: Any = self._root
        for part in reference[2:].split("/"):
            if not isinstance(found, Mapping):
                return []
            found = found.get(part.replace("~1", "/").replace("~0", "~"))
        return [found]


def _branches(schema: Mapping[str, Any]) -> list[Any]:
    return [schema[keyword] for keyword in ("anyOf", "oneOf") if keyword in schema]


def _own_member(schema: Mapping[str, Any], key: str | int) -> Any:
    if isinstance(key, str):
        return schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
    first = schema.get("prefixItems", ())
    return first[key] if key < len(first) else schema.get("items", {})
