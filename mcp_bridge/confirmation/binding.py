"""
Which calls are the same one, to which a person has agreed, or which a person has refused.

A yes is for the arguments that were shown: numbers, moments and the order of members may be written
otherwise, but nothing may be added. A no is for whatever the tool would receive as the same, as
with a default that is spelled out. What only the site's own code can compare is compared as JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel

from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.features import Tool, ToolCall
from mcp_bridge.protocol import JSONObject, JSONSchema
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.schemas.signatures import MISSING
from mcp_bridge.schemas.walk import SchemaDocument

# The first characters of a binding, which tell calls that are refused together.
REFUSED: Final = 24
# Whole numbers of no more digits stand for themselves, since most numbers are such.
_DIGITS: Final = 18
# Values whose text is the same for the same value.
_TEXTS: Final = (date, time, timedelta, UUID, PurePath)


def bound(call: ToolCall) -> ToolCall:
    """
    Return the call with its binding, of 64 characters.

    They are hashes of the user, the tool's definition and the arguments: the first REFUSED
    characters of them as a tool that needs a yes receives them, the others as they were sent.
    Raises InvalidArguments where these are not valid, or no longer.
    """
    if call.binding:
        return call
    user, tool = call.context.user, call.tool
    key = str(user.pk) if user is not None and user.is_authenticated else None
    arguments = call.sent
    # Checked anew: a tool may have changed what it was given.
    values = tool.check(arguments)
    plain = {
        name: found
        for name, default in tool.plain.items()
        if (found := values.get(name, default)) is not MISSING
    }
    sent = {**arguments, **plain}
    definition = fingerprint(canonical_definition(tool))

    def digest(arguments: JSONObject) -> str:
        text = [key, tool.name, definition, _canonical(arguments, _type_of)]
        return hashlib.sha256(json.dumps(text, sort_keys=True).encode()).hexdigest()

    shown = given = digest(sent)
    # Nobody says no to the question of another tool for good, and its arguments may be long.
    if tool.options.confirm and tool.options.input_schema is None:
        given = digest({**sent, **_made(tool, arguments, values)})
    return replace(call, binding=given[:REFUSED] + shown[: 64 - REFUSED])


def _made(tool: Tool, arguments: JSONObject, values: Mapping[str, object]) -> JSONObject:
    """
    Return what the tool receives for parameters that are not of plain data, as JSON.

    It has the defaults. Of what the site's own code makes, it is the arguments as they were sent,
    with the defaults of the schema.
    """
    filled = _defaults(tool).fill(arguments)
    made = {name: each for name, each in filled.items() if name not in tool.plain}
    # What a tool receives as it was sent has no defaults of its own.
    if all(name in values and values[name] == each for name, each in made.items()):
        return made
    # A default may be one that only the server can give, as of a secret.
    with suppress(InvalidArguments):
        if filled.keys() != arguments.keys():
            values = tool.check(filled)
        again = tool.check(filled)
        for name in made:
            # Classes of the site's may do anything there.
            with suppress(Exception):
                value = _canonical(values[name], _refuse)
                # Not what is another one each time.
                if values[name] != made[name] and value == _canonical(again[name], _refuse):
                    made[name] = value
    return made


def _canonical(value: Any, other: Callable[[object], object]) -> object:
    """Return JSON that is the same for the same value, and what ``other`` returns for a class."""
    if isinstance(value, Enum):
        return _canonical(value.value, other)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float | Decimal):
        return _number(value)
    if isinstance(value, Mapping):
        return {str(key): _canonical(each, other) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(each, other) for each in value]
    if isinstance(value, Set):
        return sorted((_canonical(each, other) for each in value), key=json.dumps)
    if isinstance(value, BaseModel):
        # With what a model keeps beside its fields.
        kept = [dict(value), value.__pydantic_private__ or {}]
        return [type(value).__qualname__, *(_canonical(each, other) for each in kept)]
    if is_dataclass(value):
        return {each.name: _canonical(getattr(value, each.name), other) for each in fields(value)}
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    return str(value) if isinstance(value, _TEXTS) else other(value)


def _type_of(value: object) -> object:
    """Return the name of a type: of plain data, only a default is of another, which tells all."""
    return [0, type(value).__qualname__]


def _refuse(value: object) -> object:
    raise TypeError(type(value))


def _number(value: int | float | Decimal) -> list[object]:
    """Return a number by its value, as a list that begins as no list of canonical values does."""
    if isinstance(value, int) and abs(value) < 10**_DIGITS:
        return [value]
    sign, digits, exponent = Decimal(str(value)).as_tuple()
    if isinstance(exponent, str):
        # Infinities, which defaults may be.
        return [sign, exponent]
    text = "".join(map(str, digits)).lstrip("0")
    shortest = text.rstrip("0")
    exponent += len(text) - len(shortest)
    if text and exponent >= 0 and len(shortest) + exponent <= _DIGITS:
        whole = int(shortest + "0" * exponent)
        return [-whole if sign else whole]
    return [sign, shortest, exponent] if text else [0]


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
