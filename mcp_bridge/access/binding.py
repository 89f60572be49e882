"""
Which calls are the same one, to which a person has agreed, or which a person has refused.

Compared is what the tool receives, so that no other spelling of a refused call is another call: a
default that is spelled out, members in another order, 1.0 for 1, a moment in another zone. What
only the site's own code can tell to be the same is another call.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any
from uuid import UUID

from mcp_bridge.calls.coercion import decode_strings
from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.features import Context, Tool, ToolCall
from mcp_bridge.protocol import JSONObject, JSONSchema
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.schemas.signatures import MISSING
from mcp_bridge.schemas.walk import SchemaDocument


def bound(call: ToolCall) -> ToolCall:
    """
    Return the call with its binding, a SHA-256 of the user, the definition and the arguments.

    Raises InvalidArguments where these are not valid, or no longer.
    """
    if call.binding:
        return call
    user, tool = call.context.user, call.tool
    key = str(user.pk) if user is not None and user.is_authenticated else None
    arguments = received(call)
    # Checked anew: a tool may have changed what it was given.
    values = tool.check(arguments)
    if tool.options.input_schema is None:
        arguments = _defaults(tool).fill(arguments)
    plain = {
        name: found
        for name, default in tool.plain.items()
        if (found := values.get(name, default)) is not MISSING
    }
    definition = fingerprint(canonical_definition(tool))
    text = [key, tool.name, definition, _canonical({**arguments, **plain})]
    digest = hashlib.sha256(json.dumps(text, sort_keys=True).encode()).hexdigest()
    return replace(call, binding=digest)


def unchecked_call(tool: Tool, sent: JSONObject, context: Context) -> ToolCall:
    """Return a call with its binding, of arguments that may have to be decoded; raise as that."""
    try:
        tool.check(sent)
    except InvalidArguments:
        sent, _ = decode_strings(tool, sent)
    return bound(ToolCall(tool=tool, arguments={}, context=context, sent=sent))


def received(call: ToolCall) -> JSONObject:
    """Return the arguments as JSON values, with the strings of JSON decoded that had to be."""
    return decode_strings(call.tool, call.sent)[0] if call.repaired else call.sent


def _canonical(value: Any) -> object:
    """Return JSON that is the same for the same value of plain data."""
    if isinstance(value, Enum):
        return _canonical(value.value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float | Decimal):
        return _number(value)
    if isinstance(value, Mapping):
        return {str(key): _canonical(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in value]
    if isinstance(value, Set):
        return sorted(map(_canonical, value), key=json.dumps)
    if is_dataclass(value):
        return {each.name: _canonical(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    # Of any other kind are defaults alone, whose text may be another one in each process.
    is_known = isinstance(value, date | time | timedelta | UUID)
    return str(value) if is_known else [0, type(value).__qualname__]


def _number(value: int | float | Decimal) -> list[object]:
    """Return a number by its value, as a list that begins as no list of canonical values does."""
    sign, digits, exponent = Decimal(str(value)).as_tuple()
    if isinstance(exponent, str):
        # Infinities, which defaults may be.
        return [sign, exponent]
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return [0]
    shortest = text.rstrip("0")
    return [sign, shortest, exponent + len(text) - len(shortest)]


@lru_cache(maxsize=256)
def _defaults(tool: Tool) -> _Defaults:
    return _Defaults(SchemaDocument(tool.input_schema))


class _Defaults:
    """Fills in the defaults that a schema has for members that are not sent."""

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        # By the identity of schemas, all of which the document holds.
        self._known: dict[int, JSONSchema] = {}

    def fill(self, arguments: JSONObject) -> JSONObject:
        """Return the arguments with the defaults."""
        filled: JSONObject = self._filled(self._document.root, arguments)
        return filled

    def _filled(self, schema: object, value: Any) -> Any:
        if isinstance(value, Mapping):
            members = self._meant(schema).get("properties", {})
            given = {
                name: each["default"]
                for name, each in members.items()
                if isinstance(each, Mapping) and "default" in each
            }
            sent = {name: self._filled(members.get(name), each) for name, each in value.items()}
            return {**given, **sent}
        if isinstance(value, list):
            items = self._meant(schema).get("items")
            return [self._filled(items, each) for each in value]
        return value

    def _meant(self, schema: object) -> JSONSchema:
        """Return the one schema that an object or array has to fit; of several branches, none."""
        if id(schema) not in self._known:
            merged, _ = self._document.merged(schema)
            branches = [each for each in merged.get("anyOf", ()) if each != {"type": "null"}]
            if len(branches) == 1:
                merged = {**merged, **self._document.merged(branches[0])[0]}
            self._known[id(schema)] = merged
        return self._known[id(schema)]
