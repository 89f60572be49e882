"""
The arguments of a call, as people read them who decide whether it runs.

Hidden is what the tool's schema says is a secret: by a mark (``records.redaction``), or by a name
that the schema itself gives to a parameter or to a member of one. Nothing that a caller
writes hides anything, unlike in a record, where all that may be a secret is hidden.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final

from mcp_bridge.conf import conf
from mcp_bridge.features import Tool
from mcp_bridge.features.secrets import names_secret
from mcp_bridge.protocol import JSONObject, JSONSchema, jsonrpc
from mcp_bridge.protocol.text import shows
from mcp_bridge.records.redaction import is_marked
from mcp_bridge.schemas.walk import IN_PLACE, SchemaDocument, subschemas

HIDDEN: Final = "•••"
# The keywords for members that a schema does not name, and for items.
_FURTHER: Final = frozenset({"additionalProperties", "patternProperties", "unevaluatedProperties"})
_ITEMS: Final = frozenset({"contains", "items", "prefixItems", "unevaluatedItems"})


class TooLong(Exception):
    """The arguments have more characters than anybody is asked to read."""


def is_longer(arguments: JSONObject, most: int) -> bool:
    """Return whether arguments have more characters as sent, and so as people read them."""
    # To find how many these are takes far longer.
    return len(jsonrpc.encode(arguments).decode()) > most


def render_arguments(tool: Tool, arguments: JSONObject, *, most: float = math.inf) -> str:
    """
    Return the arguments as indented JSON in which every character shows, without secrets.

    Raises TooLong for more than ``most`` characters.
    """
    # Nothing is cut, unlike in a record: nobody can agree to arguments that are not there.
    try:
        shown: object = _Reader(SchemaDocument(tool.input_schema)).read(arguments)
    except (AttributeError, TypeError, ValueError):
        # The schema is none, of a source of the site's own.
        shown = dict.fromkeys(arguments, HIDDEN)
    text = visible(json.dumps(shown, indent=2, ensure_ascii=False))
    if len(text) > most:
        raise TooLong
    return text


def visible(text: str) -> str:
    """Return JSON with escapes for all characters that do not show, or turn what follows."""
    hidden = {each for each in set(text) if not shows(each)}
    # JSON has escaped the new lines in texts already: those that are left are its own.
    return text.translate({ord(each): json.dumps(each)[1:-1] for each in hidden - {"\n"}})


class _Reader:
    """Replaces the secrets in arguments, of which each value is read beside its schemas."""

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        # By the identity of schemas, all of which the document holds.
        self._known: dict[tuple[int, ...], list[JSONSchema]] = {}
        self._marked: dict[int, bool] = {}

    def read(self, arguments: JSONObject) -> object:
        """Return the arguments without their secrets."""
        return self._value(arguments, [self._document.root])

    def _value(self, value: object, schemas: Sequence[object]) -> object:
        if isinstance(value, Mapping):
            applied = self._applied(schemas)
            return {name: self._member(name, each, applied) for name, each in value.items()}
        if isinstance(value, list):
            applied = self._applied(schemas)
            return [self._value(each, _items(applied, at)) for at, each in enumerate(value)]
        return value

    def _member(self, name: str, value: object, applied: Sequence[JSONSchema]) -> object:
        """Return the member of an object to which these schemas apply."""
        schemas: list[object] = []
        is_named = False
        for each in applied:
            if name in each.get("properties", ()):
                schemas.append(each["properties"][name])
                is_named = True
            else:
                schemas += (part.schema for part in subschemas(each) if part.keyword in _FURTHER)
        if is_named and names_secret(name, conf.sensitive_names):
            return HIDDEN
        return HIDDEN if any(map(self._is_marked, schemas)) else self._value(value, schemas)

    def _applied(self, schemas: Sequence[object]) -> list[JSONSchema]:
        """Return all schemas that may apply to a value of these: their branches and references."""
        key = tuple(map(id, schemas))
        if key not in self._known:
            found: dict[int, JSONSchema] = {}
            pending = list(schemas)
            while pending:
                each = pending.pop()
                if isinstance(each, Mapping) and id(each) not in found:
                    found[id(each)] = each
                    pending += self._document.targets(each).values()
                    pending += (
                        part.schema for part in subschemas(each) if part.keyword in IN_PLACE
                    )
            self._known[key] = list(found.values())
        return self._known[key]

    def _is_marked(self, schema: object) -> bool:
        if id(schema) not in self._marked:
            self._marked[id(schema)] = is_marked(schema, self._document)
        return self._marked[id(schema)]


def _items(applied: Sequence[JSONSchema], at: int) -> list[object]:
    """Return the schemas of the item of an array at an index."""
    return [
        part.schema
        for each in applied
        for part in subschemas(each)
        if part.keyword in _ITEMS and part.key in (None, at)
    ]
