"""Tables of the members of a JSON Schema (2020-12), each with its type in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import unquote

from mcp_bridge.protocol import JSONSchema
from mcp_bridge.protocol.text import cut
from mcp_bridge.schemas.walk import REFERENCES, SchemaDocument, change_subschemas

MAX_ROWS: Final = 200
MAX_DEPTH: Final = 16
# The limits of types in words: levels, branches or values at each of them, and characters.
_DEPTH: Final = 3
_NAMED: Final = 20
_LONGEST: Final = 300
_BRANCHES: Final = {"anyOf": " or ", "oneOf": " or ", "allOf": " and "}
_HOLDING: Final = ("properties", "additionalProperties", "items", "prefixItems", *_BRANCHES)
_NUMBERS: Final = {
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
    "multipleOf": "a multiple of",
}
_NULL: Final = {"type": "null"}
_FORMATS: Final = {
    "date": "date such as 2026-01-31",
    "date-time": "date and time such as 2026-01-31T12:00:00Z",
    "time": "time such as 12:00:00Z",
    "duration": "duration such as PT1H30M",
    "email": "e-mail address",
    "uri": "address such as https://example.com/",
    "uuid": "UUID",
}


class Row(NamedTuple):
    """One member of a schema, at ``level`` from 0; ``default`` is JSON, or "" without one."""

    # A path, in which tags[] is an item and * any other name.
    name: str
    level: int
    type: str
    required: bool = False
    default: str = ""
    description: str = ""


def parameters(schema: JSONSchema) -> list[Row]:
    """Return the members of an input or output schema, MAX_ROWS at most and one that says so."""
    schema = with_null_as_type(schema)
    rows = list(islice(_Table(schema).members(schema, _Place()), MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        rows[MAX_ROWS] = Row("…", 0, f"more than {MAX_ROWS} rows: the JSON has all of them")
    return rows


def with_null_as_type(schema: JSONSchema) -> JSONSchema:
    """Return the same schema to show: ``anyOf`` of X and null is X, with null as a second type."""
    schema = change_subschemas(schema, with_null_as_type)
    branches = schema.get("anyOf", ())
    found = [each for each in branches if isinstance(each, Mapping) and each != _NULL]
    beside = {key: value for key, value in schema.items() if key != "anyOf"}
    if len(found) != 1 or len(branches) != 2 or _NULL not in branches:
        return schema
    other = dict(found[0])
    kind = other.pop("type", None)
    values = [other.pop("const")] if "const" in other else other.get("enum")
    named = isinstance(kind, str) or (kind is None and values is not None)
    # Nothing that only one of the two says is lost.
    if not named or not beside.keys().isdisjoint(found[0]):
        return schema
    if values is not None:
        other["enum"] = [*values, None]
    types = {"type": [kind, "null"]} if kind else {}
    return {**types, **other, **beside}


def spelled(name: str) -> str:
    """Return a member's name for a path: in quotation marks where it is unusual."""
    usual = name.replace("-", "_").isidentifier() or (name.isalnum() and name.isprintable())
    return name if usual else json.dumps(name, ensure_ascii=False)


def as_json(value: object, length: int = _LONGEST) -> str:
    """Return a value as JSON in one line, cut to a number of characters."""
    return cut(json.dumps(value, ensure_ascii=False, default=str), length)


def choice(value: object) -> str:
    """Return a text for one value of an enum: a plain word as it is, all else as JSON."""
    if not isinstance(value, str) or value in ("", "null", "true", "false"):
        return as_json(value, 80)
    return cut(value, 80) if value.strip() == value and "," not in value else as_json(value, 80)


def kinds_of(schema: JSONSchema) -> list[str]:
    """Return the JSON types that ``type`` names."""
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def describe_type(
    schema: object, document: SchemaDocument, seen: frozenset[int] = frozenset(), depth: int = 0
) -> str:
    """
    Return the values that a schema takes, such as "integer, 1 to 100" or "list of string".

    ``seen`` are the ids of the schemas to which references have led on the way here.
    """
    schema, seen = document.merged(schema, seen)
    for keyword in REFERENCES:
        if keyword in schema:
            # It leads nowhere, or back.
            target = document.targets(schema).get(keyword)
            if target is document.root:
                return "the same as the whole again"
            if id(target) in seen:
                name = unquote(schema[keyword].rsplit("/", 1)[-1])
                return f"{name} again, which may hold itself"
            return f"as {schema[keyword]} says"
    if "enum" in schema:
        values = schema["enum"]
        more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
        return f"one of: {', '.join(map(choice, values[:_NAMED]))}{more}"
    if "const" in schema:
        return f"always {choice(schema['const'])}"
    if depth > _DEPTH:
        return "…"

    def inner(each: object) -> str:
        return describe_type(each, document, seen, depth + 1)

    words, joint = [_describe_kind(kind, schema, inner) for kind in kinds_of(schema)], " or "
    for keyword, between in _BRANCHES.items():
        if not words and schema.get(keyword):
            words, joint = [inner(each) for each in schema[keyword][:_NAMED]], between
    if words:
        comma = "," if any("," in each for each in words) else ""
        return cut(f"{comma}{joint}".join(dict.fromkeys(words)), _LONGEST)
    if "properties" in schema:
        return "object"
    return "nothing" if schema.get("not") == {} else "anything"


def _describe_kind(kind: str, schema: JSONSchema, inner: Callable[[object], str]) -> str:
    """Return the values of one JSON type; ``inner`` describes the schemas of items."""
    words = [kind]
    if kind == "array":
        if schema.get("prefixItems"):
            each = f", in this order: {'; '.join(map(inner, schema['prefixItems'][:_NAMED]))}"
        else:
            each = f" {inner(schema.get('items', True))}"
            each = f" ({each[1:]})" if ", " in each or " or " in each else each
        words = [f"list of{each}", *_range(schema, "minItems", "maxItems")]
        words += ["all different"] if schema.get("uniqueItems") else []
    elif kind in ("integer", "number"):
        words += _range(schema, "minimum", "maximum")
        for keyword, text in _NUMBERS.items():
            words += [f"{text} {schema[keyword]}"] if keyword in schema else []
    elif kind == "string":
        given = schema.get("format")
        words = [_FORMATS.get(given, f"string, {given}")] if given else words
        words += [f"in {schema['contentEncoding']}"] if "contentEncoding" in schema else []
        for length in _range(schema, "minLength", "maxLength"):
            words.append(f"{length} character{'' if length.endswith(' 1') else 's'}")
        words += [f"matching {cut(schema['pattern'], 80)}"] if "pattern" in schema else []
    return ", ".join(words)


def _range(schema: JSONSchema, lowest: str, highest: str) -> list[str]:
    low, high = schema.get(lowest), schema.get(highest)
    if lowest != "minimum":
        low = low or None
    if low == high:
        return [] if low is None else [f"exactly {low}"]
    if low is None or high is None:
        return [f"at most {high}" if low is None else f"at least {low}"]
    return [f"{low} to {high}"]


class _Place(NamedTuple):
    """The place of a schema: its path, its row's level, and the references that led there."""

    path: str = ""
    level: int = 0
    depth: int = 0
    seen: frozenset[int] = frozenset()


class _Table:
    """The rows of one document."""

    def __init__(self, schema: JSONSchema) -> None:
        self.document = SchemaDocument(schema)
        # References can make a small schema a very large one.
        self.left = 4 * MAX_ROWS

    def members(self, schema: object, place: _Place) -> Iterator[Row]:
        """Yield the rows of the members of a schema, but none for itself."""
        schema, seen = self.document.merged(schema, place.seen)
        self.left -= 1
        leads_nowhere = any(each in schema for each in REFERENCES)
        if self.left < 0 or place.depth > MAX_DEPTH or leads_nowhere:
            return
        place = place._replace(depth=place.depth + 1, seen=seen)
        before = f"{place.path}." if place.path else ""
        required = schema.get("required", ())
        for name, each in schema.get("properties", {}).items():
            inner = place._replace(path=before + spelled(name))
            yield from self.member(each, inner, required=name in required)
        if isinstance(others := schema.get("additionalProperties"), Mapping):
            yield from self.member(others, place._replace(path=f"{before}*"))
        for each in (*schema.get("prefixItems", ()), schema.get("items")):
            if isinstance(each, Mapping):
                yield from self.members(each, place._replace(path=f"{place.path}[]"))
        for keyword in _BRANCHES:
            # The branches with members, of which several have a row each.
            holding = [each for each in schema.get(keyword, ()) if self.holds(each, seen)]
            for number, each in enumerate(holding, 1):
                if keyword == "allOf" or len(holding) == 1:
                    yield from self.members(each, place)
                else:
                    kind = f"kind {number} of {len(holding)}"
                    inner = place._replace(path=place.path or kind)
                    yield from self.member(each, inner, kind=f"{kind}: ")

    def member(
        self, schema: object, place: _Place, *, required: bool = False, kind: str = ""
    ) -> Iterator[Row]:
        """Yield the row of a schema, and the rows of its members."""
        known, _ = self.document.merged(schema, place.seen)
        text = "Under any other name." if place.path.endswith("*") else ""
        yield Row(
            place.path,
            place.level,
            kind + describe_type(schema, self.document, place.seen),
            required,
            as_json(known["default"]) if "default" in known else "",
            str(known.get("description", text)),
        )
        yield from self.members(
            schema, place._replace(level=place.level + 1, depth=place.depth + 1)
        )

    def holds(self, schema: object, seen: frozenset[int]) -> bool:
        branch, _ = self.document.merged(schema, seen)
        return branch.keys().isdisjoint(REFERENCES) and any(map(branch.get, _HOLDING))
