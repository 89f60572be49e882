"""A JSON Schema (2020-12) for people: a table of its members, each with its type in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from mcp_bridge.protocol.text import cut

MAX_ROWS: Final = 200
MAX_DEPTH: Final = 16
# How far types in words go into each other, and how many branches or values they name.
_DEPTH: Final = 3
_NAMED: Final = 20
_LONGEST: Final = 300
_BRANCHES: Final = {"anyOf": " or ", "oneOf": " or ", "allOf": " and "}
_ROOT: Final = frozenset({"#"})
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


def parameters(schema: Mapping[str, Any]) -> list[Row]:
    """The members of a tool's input or output schema, MAX_ROWS at most and one that says so."""
    table = _Table(schema)
    table.inside(schema, _Place())
    if len(table.rows) <= MAX_ROWS:
        return table.rows
    more = Row(name="…", level=0, type=f"more than {MAX_ROWS} rows: the JSON has all of them")
    return [*table.rows[:MAX_ROWS], more]


def spelled(name: str) -> str:
    """A member's name as people can read it in a path: in quotation marks where it is unusual."""
    usual = name.replace("-", "_").isidentifier() or (name.isalnum() and name.isprintable())
    return name if usual else json.dumps(name, ensure_ascii=False)


def as_json(value: Any, length: int = _LONGEST) -> str:
    """The value as JSON in one line, cut."""
    return cut(json.dumps(value, ensure_ascii=False, default=str), length)


def choice(value: Any) -> str:
    """One value of an enum: a plain word as it is, all else as JSON."""
    plain = isinstance(value, str) and value.strip() == value != "" and "," not in value
    reserved = value in ("null", "true", "false") if plain else False
    return cut(value, 80) if plain and not reserved else as_json(value, 80)


def opened(
    schema: Any, root: Mapping[str, Any], seen: frozenset[str] = _ROOT
) -> tuple[Mapping[str, Any], frozenset[str]]:
    """
    The schema with its references followed, and all references that were followed on the way.

    One that was followed before, or leads out of the document, is left in it as ``$ref``.
    """
    if not isinstance(schema, Mapping):
        return ({"not": {}} if schema is False else {}), seen
    while isinstance(reference := schema.get("$ref"), str) and reference not in seen:
        found = _target(reference, root)
        if found is None:
            break
        seen |= {reference}
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        schema = {**found, **beside}
    return schema, seen


def _target(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found: Any = root
    path, _, rest = reference.partition("#/")
    if path or not rest:
        return None
    for part in rest.split("/"):
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None


def kinds_of(schema: Mapping[str, Any]) -> list[str]:
    """The JSON types that ``type`` names."""
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def in_words(
    schema: Any, root: Mapping[str, Any], seen: frozenset[str] = _ROOT, depth: int = 0
) -> str:
    """What values a schema takes, such as "integer, 1 to 100" or "list of string, at most 5"."""
    schema, seen = opened(schema, root, seen)
    if "$ref" in schema:
        return _referred(str(schema["$ref"]), seen)
    if "enum" in schema:
        return f"one of: {_several(schema['enum'])}"
    if "const" in schema:
        return f"always {choice(schema['const'])}"
    if depth > _DEPTH:
        return "…"

    def inner(each: Any) -> str:
        return in_words(each, root, seen, depth + 1)

    kinds = kinds_of(schema)
    if kinds:
        return _joined(" or ", [_kind(kind, schema, inner) for kind in kinds])
    for keyword, joint in _BRANCHES.items():
        if schema.get(keyword):
            return _joined(joint, [inner(each) for each in schema[keyword][:_NAMED]])
    if "properties" in schema:
        return "object"
    return "nothing" if schema.get("not") == {} else "anything"


def _joined(joint: str, words: list[str]) -> str:
    """The words of several kinds, each said once."""
    comma = "," if any("," in each for each in words) else ""
    return cut(f"{comma}{joint}".join(dict.fromkeys(words)), _LONGEST)


def _referred(reference: str, seen: frozenset[str]) -> str:
    if reference == "#":
        return "the same as the whole again"
    name = unquote(reference.rsplit("/", 1)[-1])
    return f"{name} again, which may hold itself" if reference in seen else f"as {reference} says"


def _several(values: list[Any]) -> str:
    more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
    return ", ".join(choice(each) for each in values[:_NAMED]) + more


def _kind(kind: str, schema: Mapping[str, Any], inner: Any) -> str:
    words = [kind]
    if kind == "array":
        words = [_items(schema, inner), *_range(schema, "minItems", "maxItems")]
        words += ["all different"] if schema.get("uniqueItems") else []
    elif kind in ("integer", "number"):
        words += [*_range(schema, "minimum", "maximum"), *_beyond(schema)]
        words += [f"a multiple of {schema['multipleOf']}"] if "multipleOf" in schema else []
    elif kind == "string":
        given = schema.get("format")
        words = [_FORMATS.get(given, f"string, {given}")] if given else words
        words += [f"in {schema['contentEncoding']}"] if "contentEncoding" in schema else []
        for length in _range(schema, "minLength", "maxLength"):
            words.append(f"{length} character{'' if length.endswith(' 1') else 's'}")
        words += [f"matching {cut(schema['pattern'], 80)}"] if "pattern" in schema else []
    return ", ".join(words)


def _items(schema: Mapping[str, Any], inner: Any) -> str:
    if schema.get("prefixItems"):
        return f"list of, in this order: {'; '.join(map(inner, schema['prefixItems'][:_NAMED]))}"
    if schema.get("items", True) is True or schema["items"] == {}:
        return "list of anything"
    words = inner(schema["items"])
    return f"list of ({words})" if ", " in words or " or " in words else f"list of {words}"


def _range(schema: Mapping[str, Any], lowest: str, highest: str) -> Iterator[str]:
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


def _beyond(schema: Mapping[str, Any]) -> Iterator[str]:
    if "exclusiveMinimum" in schema:
        yield f"more than {schema['exclusiveMinimum']}"
    if "exclusiveMaximum" in schema:
        yield f"less than {schema['exclusiveMaximum']}"


class _Place(NamedTuple):
    """Where a schema stands: its path, its row's level, and the references that led there."""

    path: str = ""
    level: int = 0
    seen: frozenset[str] = _ROOT
    depth: int = 0

    def to(self, path: str, seen: frozenset[str], *, below: int = 0) -> _Place:
        """A place further in."""
        return _Place(path, self.level + below, seen, self.depth + 1)

    def member(self, name: str) -> str:
        """The path of a member."""
        return f"{self.path}.{name}" if self.path else name


class _Table:
    """The rows of one schema, as they are found."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.rows: list[Row] = []
        self._root = root
        # References can make a small schema a very large one.
        self._left = 4 * MAX_ROWS

    def inside(self, schema: Any, place: _Place) -> None:
        """Add the rows of what a schema holds, but none for itself."""
        schema, seen = opened(schema, self._root, place.seen)
        self._left -= 1
        if self._left < 0 or place.depth > MAX_DEPTH or "$ref" in schema:
            return
        required = schema.get("required", ())
        for name, each in schema.get("properties", {}).items():
            path = place.member(spelled(name))
            self._add(each, place.to(path, seen), required=name in required)
        if isinstance(schema.get("additionalProperties"), Mapping):
            self._add(schema["additionalProperties"], place.to(place.member("*"), seen))
        for each in (*schema.get("prefixItems", ()), schema.get("items")):
            if isinstance(each, Mapping):
                self.inside(each, place.to(f"{place.path}[]", seen))
        for keyword in _BRANCHES:
            self._branches(keyword, schema.get(keyword, ()), place, seen)

    def _add(self, schema: Any, place: _Place, *, required: bool = False) -> None:
        if len(self.rows) > MAX_ROWS:
            return
        known, _ = opened(schema, self._root, place.seen)
        text = "Under any other name." if place.path.endswith("*") else ""
        self.rows.append(
            Row(
                name=place.path,
                level=place.level,
                type=in_words(schema, self._root, place.seen),
                required=required,
                default=as_json(known["default"]) if "default" in known else "",
                description=str(known.get("description", text)),
            )
        )
        self.inside(schema, place.to(place.path, place.seen, below=1))

    def _branches(
        self, keyword: str, branches: Sequence[Any], place: _Place, seen: frozenset[str]
    ) -> None:
        """Add the rows of branches; where several hold something, each has a row of its own."""
        holding = [each for each in branches if _holds(opened(each, self._root, seen)[0])]
        if keyword == "allOf" or len(holding) == 1:
            for each in holding:
                self.inside(each, place.to(place.path, seen))
            return
        for number, each in enumerate(holding, 1):
            kind = f"kind {number} of {len(holding)}"
            first = len(self.rows)
            self._add(each, place.to(place.path or kind, seen))
            if first < len(self.rows):
                row = self.rows[first]
                self.rows[first] = replace(row, type=f"{kind}: {row.type}")


def _holds(schema: Mapping[str, Any]) -> bool:
    keywords = ("properties", "additionalProperties", "items", "prefixItems", *_BRANCHES)
    return "$ref" not in schema and any(schema.get(each) for each in keywords)
