"""A JSON Schema (2020-12) for people: a table of its members, each with its type in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from urllib.parse import unquote

from mcp_bridge.protocol.jsonrpc import JSONSchema
from mcp_bridge.protocol.text import cut
from mcp_bridge.schemas.walk import REFERENCES, SchemaDocument

MAX_ROWS: Final = 200
MAX_DEPTH: Final = 16
# How far types in words go into each other, and how many branches or values they name.
_DEPTH: Final = 3
_NAMED: Final = 20
_LONGEST: Final = 300
_BRANCHES: Final = {"anyOf": " or ", "oneOf": " or ", "allOf": " and "}
_FURTHER: Final = {
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

    ``level`` is how deep it stands, from 0; ``default`` is JSON, or "" where there is none.
    """

    name: str
    level: int
    type: str
    required: bool = False
    default: str = ""
    description: str = ""


def parameters(schema: JSONSchema) -> list[Row]:
    """Return the members of a tool's schema: at most MAX_ROWS, and then one that says so."""
    table = _Table(SchemaDocument(schema))
    table.add_members(schema, _Place())
    if len(table.rows) <= MAX_ROWS:
        return table.rows
    more = Row(name="…", level=0, type=f"more than {MAX_ROWS} rows: the JSON has all of them")
    return [*table.rows[:MAX_ROWS], more]


def spelled(name: str) -> str:
    """Return a member's name as people can read it in a path: quoted where it is unusual."""
    usual = name.replace("-", "_").isidentifier() or (name.isalnum() and name.isprintable())
    return name if usual else json.dumps(name, ensure_ascii=False)


def as_json(value: object, length: int = _LONGEST) -> str:
    """Return the value as JSON in one line, cut."""
    return cut(json.dumps(value, ensure_ascii=False, default=str), length)


def choice(value: object) -> str:
    """Return one value of an enum: a plain word as it is, all else as JSON."""
    plain = isinstance(value, str) and value.strip() == value != "" and "," not in value
    reserved = value in ("null", "true", "false")
    return cut(str(value), 80) if plain and not reserved else as_json(value, 80)


def kinds_of(schema: JSONSchema) -> list[str]:
    """Return the JSON types that ``type`` names."""
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def describe_type(
    schema: object, document: SchemaDocument, seen: frozenset[int] = frozenset(), depth: int = 0
) -> str:
    """
    Return the values that a schema takes, as "integer, 1 to 100" or "list of string, at most 5".

    ``seen`` are the ids of the schemas that references have led to on the way here.
    """
    merged, seen = document.merged(schema, seen)
    for keyword in REFERENCES:
        if keyword in merged:
            # It leads nowhere, or back.
            reference, target = str(merged[keyword]), document.targets(merged).get(keyword)
            if target is document.root:
                return "the same as the whole again"
            name = unquote(reference.rsplit("/", 1)[-1])
            is_again = id(target) in seen
            return f"{name} again, which may hold itself" if is_again else f"as {reference} says"
    if "enum" in merged:
        values = merged["enum"]
        more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
        return f"one of: {', '.join(map(choice, values[:_NAMED]))}{more}"
    if "const" in merged:
        return f"always {choice(merged['const'])}"
    if depth > _DEPTH:
        return "…"

    def inner(each: object) -> str:
        return describe_type(each, document, seen, depth + 1)

    kinds = kinds_of(merged)
    if kinds:
        return _joined(" or ", [_kind(kind, merged, inner) for kind in kinds])
    for keyword, joint in _BRANCHES.items():
        if merged.get(keyword):
            return _joined(joint, [inner(each) for each in merged[keyword][:_NAMED]])
    if "properties" in merged:
        return "object"
    return "nothing" if merged.get("not") == {} else "anything"


def _joined(joint: str, words: list[str]) -> str:
    """Return the words of several kinds, each kind once."""
    comma = "," if any("," in each for each in words) else ""
    return cut(f"{comma}{joint}".join(dict.fromkeys(words)), _LONGEST)


def _kind(kind: str, schema: JSONSchema, inner: Callable[[object], str]) -> str:
    words = [kind]
    if kind == "array":
        words = [_items(schema, inner), *_range(schema, "minItems", "maxItems")]
        words += ["all different"] if schema.get("uniqueItems") else []
    elif kind in ("integer", "number"):
        words += _range(schema, "minimum", "maximum")
        for keyword, phrase in _FURTHER.items():
            words += [f"{phrase} {schema[keyword]}"] if keyword in schema else []
    elif kind == "string":
        given = schema.get("format")
        words = [_FORMATS.get(given, f"string, {given}")] if given else words
        words += [f"in {schema['contentEncoding']}"] if "contentEncoding" in schema else []
        for length in _range(schema, "minLength", "maxLength"):
            words.append(f"{length} character{'' if length.endswith(' 1') else 's'}")
        words += [f"matching {cut(schema['pattern'], 80)}"] if "pattern" in schema else []
    return ", ".join(words)


def _items(schema: JSONSchema, inner: Callable[[object], str]) -> str:
    if schema.get("prefixItems"):
        return f"list of, in this order: {'; '.join(map(inner, schema['prefixItems'][:_NAMED]))}"
    if schema.get("items", True) is True or schema["items"] == {}:
        return "list of anything"
    words = inner(schema["items"])
    return f"list of ({words})" if ", " in words or " or " in words else f"list of {words}"


def _range(schema: JSONSchema, lowest: str, highest: str) -> Iterator[str]:
    low, high = schema.get(lowest), schema.get(highest)
    if lowest != "minimum" and not low:
        low = None
    if low is not None and low == high:
        yield f"exactly {low}"
    elif low is not None and high is not None:
        yield f"{low} to {high}"
    elif low is not None:
        yield f"at least {low}"
    elif high is not None:
        yield f"at most {high}"


class _Place(NamedTuple):
    """Where a schema stands: its path, its row's level, the references on the way, their number."""

    path: str = ""
    level: int = 0
    seen: frozenset[int] = frozenset()
    depth: int = 0

    def to(self, path: str, seen: frozenset[int], *, below: int = 0) -> _Place:
        """Return a place further in."""
        return _Place(path, self.level + below, seen, self.depth + 1)

    def member(self, name: str) -> str:
        """Return the path of a member."""
        return f"{self.path}.{name}" if self.path else name


class _Table:
    """The rows of one schema, as they are found."""

    def __init__(self, document: SchemaDocument) -> None:
        self.rows: list[Row] = []
        self._document = document
        # References can make a small schema a very large one.
        self._left = 4 * MAX_ROWS

    def add_members(self, schema: object, place: _Place) -> None:
        """Add the rows of the members of a schema, but none for itself."""
        merged, seen = self._document.merged(schema, place.seen)
        self._left -= 1
        if self._left < 0 or place.depth > MAX_DEPTH or _is_reference(merged):
            return
        required = merged.get("required", ())
        for name, each in merged.get("properties", {}).items():
            path = place.member(spelled(name))
            self._add(each, place.to(path, seen), required=name in required)
        if isinstance(merged.get("additionalProperties"), Mapping):
            self._add(merged["additionalProperties"], place.to(place.member("*"), seen))
        for each in (*merged.get("prefixItems", ()), merged.get("items")):
            if isinstance(each, Mapping):
                self.add_members(each, place.to(f"{place.path}[]", seen))
        for keyword in _BRANCHES:
            branches = [
                each
                for each in merged.get(keyword, ())
                if _holds(self._document.merged(each, seen)[0])
            ]
            if keyword == "allOf" or len(branches) == 1:
                for each in branches:
                    self.add_members(each, place.to(place.path, seen))
                continue
            # Where several hold something, each has a row of its own.
            for number, each in enumerate(branches, 1):
                kind = f"kind {number} of {len(branches)}"
                first = len(self.rows)
                self._add(each, place.to(place.path or kind, seen))
                if first < len(self.rows):
                    row = self.rows[first]
                    self.rows[first] = replace(row, type=f"{kind}: {row.type}")

    def _add(self, schema: object, place: _Place, *, required: bool = False) -> None:
        if len(self.rows) > MAX_ROWS:
            return
        known, _ = self._document.merged(schema, place.seen)
        text = "Under any other name." if place.path.endswith("*") else ""
        self.rows.append(
            Row(
                name=place.path,
                level=place.level,
                type=describe_type(schema, self._document, place.seen),
                required=required,
                default=as_json(known["default"]) if "default" in known else "",
                description=str(known.get("description", text)),
            )
        )
        self.add_members(schema, place.to(place.path, place.seen, below=1))


def _is_reference(schema: JSONSchema) -> bool:
    return any(keyword in schema for keyword in REFERENCES)


def _holds(schema: JSONSchema) -> bool:
    keywords = ("properties", "additionalProperties", "items", "prefixItems", *_BRANCHES)
    return not _is_reference(schema) and any(schema.get(each) for each in keywords)
