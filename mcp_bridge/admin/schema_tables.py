"""Tables of the members of a JSON Schema (2020-12), each with its type in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import unquote

from mcp_bridge.protocol import JSONSchema
from mcp_bridge.protocol.text import cut
from mcp_bridge.schemas.walk import REFERENCES, SchemaDocument

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
_FORMATS: Final = {
    "date": "date such as 2026-01-31",
    "date-time": "date and time such as 2026-01-31T12:00:00Z",
    "time": "time such as 12:00:00Z",
    "duration": "duration such as PT1H30M",
    "email": "e-mail address",
    "uri": "address such as https://example.com/",
    "uuid": "UUID",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    One member of a schema. ``name`` is its path: ``tags[]`` is an item, ``*`` any other name.

    ``level`` is its depth, from 0; ``default`` is JSON, or "" where there is none.
    """

    name: str
    level: int
    type: str
    required: bool = False
    default: str = ""
    description: str = ""


def parameters(schema: JSONSchema) -> list[Row]:
    """Return the members of an input or output schema, MAX_ROWS at most and one that says so."""
    # References can make a small schema a very large one.
    place = _Place(SchemaDocument(schema), left=iter(range(4 * MAX_ROWS)))
    rows = list(islice(_members(schema, place), MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        text = f"more than {MAX_ROWS} rows: the JSON has all of them"
        rows[MAX_ROWS] = Row(name="…", level=0, type=text)
    return rows


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
            reference, target = str(schema[keyword]), document.targets(schema).get(keyword)
            if target is document.root:
                return "the same as the whole again"
            if id(target) in seen:
                return f"{unquote(reference.rsplit('/', 1)[-1])} again, which may hold itself"
            return f"as {reference} says"
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
    if lowest != "minimum" and not low:
        low = None
    if low is None and high is None:
        return []
    if low == high:
        return [f"exactly {low}"]
    if low is None or high is None:
        return [f"at most {high}" if low is None else f"at least {low}"]
    return [f"{low} to {high}"]


class _Place(NamedTuple):
    """A schema's place: its path, its row's level, and the references that led there."""

    document: SchemaDocument
    # One of these is used up by each schema whose members are read.
    left: Iterator[int]
    path: str = ""
    level: int = 0
    seen: frozenset[int] = frozenset()
    depth: int = 0

    def to(self, path: str, seen: frozenset[int], *, below: int = 0) -> _Place:
        """Return a place further in."""
        return self._replace(path=path, level=self.level + below, seen=seen, depth=self.depth + 1)

    def member(self, name: str, seen: frozenset[int]) -> _Place:
        """Return the place of a member."""
        return self.to(f"{self.path}.{name}" if self.path else name, seen)


def _members(schema: object, place: _Place) -> Iterator[Row]:
    """Yield the rows of the members of a schema, but none for itself."""
    schema, seen = place.document.merged(schema, place.seen)
    if (
        next(place.left, None) is None
        or place.depth > MAX_DEPTH
        or not schema.keys().isdisjoint(REFERENCES)
    ):
        return
    required = schema.get("required", ())
    for name, each in schema.get("properties", {}).items():
        yield from _member(each, place.member(spelled(name), seen), required=name in required)
    if isinstance(others := schema.get("additionalProperties"), Mapping):
        yield from _member(others, place.member("*", seen))
    for each in (*schema.get("prefixItems", ()), schema.get("items")):
        if isinstance(each, Mapping):
            yield from _members(each, place.to(f"{place.path}[]", seen))
    for keyword in _BRANCHES:
        # The branches with members, of which several have a row each.
        holding = []
        for each in schema.get(keyword, ()):
            branch, _ = place.document.merged(each, seen)
            is_open = branch.keys().isdisjoint(REFERENCES)
            holding += [each] if is_open and any(map(branch.get, _HOLDING)) else []
        for number, each in enumerate(holding, 1):
            if keyword == "allOf" or len(holding) == 1:
                yield from _members(each, place.to(place.path, seen))
            else:
                kind = f"kind {number} of {len(holding)}"
                yield from _member(each, place.to(place.path or kind, seen), kind=f"{kind}: ")


def _member(
    schema: object, place: _Place, *, required: bool = False, kind: str = ""
) -> Iterator[Row]:
    """Yield the row of a schema, and the rows of its members."""
    known, _ = place.document.merged(schema, place.seen)
    text = "Under any other name." if place.path.endswith("*") else ""
    yield Row(
        name=place.path,
        level=place.level,
        type=kind + describe_type(schema, place.document, place.seen),
        required=required,
        default=as_json(known["default"]) if "default" in known else "",
        description=str(known.get("description", text)),
    )
    yield from _members(schema, place.to(place.path, place.seen, below=1))
