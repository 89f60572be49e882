"""Tables of the members of a JSON Schema (2020-12), each with its type in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import unquote

from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from mcp_bridge.protocol import JSONSchema
from mcp_bridge.protocol.text import cut
from mcp_bridge.schemas.walk import REFERENCES, SchemaDocument, change_subschemas

MAX_ROWS: Final = 200
MAX_DEPTH: Final = 16
# The limits of types in words: levels, branches or values at each of them, and characters.
_DEPTH: Final = 3
_NAMED: Final = 20
_LONGEST: Final = 300
_BRANCHES: Final = {"anyOf": _("or"), "oneOf": _("or"), "allOf": _("and")}
_HOLDING: Final = ("properties", "additionalProperties", "items", "prefixItems", *_BRANCHES)
_NUMBERS: Final = {
    "exclusiveMinimum": _("more than %(number)s"),
    "exclusiveMaximum": _("less than %(number)s"),
    "multipleOf": _("a multiple of %(number)s"),
}
_NULL: Final = {"type": "null"}
# The words for schemas that take any value, and none.
ANYTHING: Final = _("anything")
NOTHING: Final = _("nothing")
KINDS: Final[Mapping[str, Promise]] = {
    "array": _("list"),
    "boolean": pgettext_lazy("type of a parameter", "boolean"),
    "integer": pgettext_lazy("type of a parameter", "integer"),
    "null": pgettext_lazy("type of a parameter", "null"),
    "number": pgettext_lazy("type of a parameter", "number"),
    "object": pgettext_lazy("type of a parameter", "object"),
    "string": pgettext_lazy("type of a parameter", "string"),
}
_FORMATS: Final[Mapping[str, Promise]] = {
    "date": _("date such as 2026-01-31"),
    "date-time": _("date and time such as 2026-01-31T12:00:00Z"),
    "time": _("time such as 12:00:00Z"),
    "duration": _("duration such as PT1H30M"),
    "email": _("e-mail address"),
    "uri": _("address such as https://example.com/"),
    "uuid": pgettext_lazy("type of a parameter", "UUID"),
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
        text = gettext("more than %(rows)d rows: the JSON has all of them")
        rows[MAX_ROWS] = Row("…", 0, text % {"rows": MAX_ROWS})
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
                return gettext("the same as the whole again")
            if id(target) in seen:
                name = unquote(schema[keyword].rsplit("/", 1)[-1])
                return gettext("%(name)s again, which may hold itself") % {"name": name}
            return gettext("as %(reference)s says") % {"reference": schema[keyword]}
    if "enum" in schema:
        values = schema["enum"]
        named, rest = ", ".join(map(choice, values[:_NAMED])), len(values) - _NAMED
        if rest <= 0:
            return gettext("one of: %(values)s") % {"values": named}
        text = ngettext(
            "one of: %(values)s and %(count)d more", "one of: %(values)s and %(count)d more", rest
        )
        return text % {"values": named, "count": rest}
    if "const" in schema:
        return gettext("always %(value)s") % {"value": choice(schema["const"])}
    if depth > _DEPTH:
        return "…"

    def inner(each: object) -> str:
        return describe_type(each, document, seen, depth + 1)

    words, joint = [_describe_kind(kind, schema, inner) for kind in kinds_of(schema)], gettext("or")
    for keyword, between in _BRANCHES.items():
        if not words and schema.get(keyword):
            words, joint = [inner(each) for each in schema[keyword][:_NAMED]], str(between)
    if words:
        comma = "," if any("," in each for each in words) else ""
        return cut(f"{comma} {joint} ".join(dict.fromkeys(words)), _LONGEST)
    if "properties" in schema:
        return str(KINDS["object"])
    return str(NOTHING if schema.get("not") == {} else ANYTHING)


def _describe_kind(kind: str, schema: JSONSchema, inner: Callable[[object], str]) -> str:
    """Return the values of one JSON type; ``inner`` describes the schemas of items."""
    if kind == "array":
        return ", ".join(_describe_list(schema, inner))
    words = [str(KINDS.get(kind, kind))]
    if kind in ("integer", "number"):
        words += _numbers(schema)
        words += [
            str(text) % {"number": schema[keyword]}
            for keyword, text in _NUMBERS.items()
            if keyword in schema
        ]
    elif kind == "string":
        given = schema.get("format")
        if given:
            other = gettext("string, %(format)s") % {"format": given}
            words = [str(_FORMATS.get(given, other))]
        if "contentEncoding" in schema:
            words.append(gettext("in %(encoding)s") % {"encoding": schema["contentEncoding"]})
        words += _lengths(schema)
        if "pattern" in schema:
            words.append(gettext("matching %(pattern)s") % {"pattern": cut(schema["pattern"], 80)})
    return ", ".join(words)


def _describe_list(schema: JSONSchema, inner: Callable[[object], str]) -> list[str]:
    if schema.get("prefixItems"):
        items = "; ".join(map(inner, schema["prefixItems"][:_NAMED]))
        words = [gettext("list of, in this order: %(items)s") % {"items": items}]
    else:
        items = inner(schema.get("items", True))
        either = gettext("or")
        items = f"({items})" if ", " in items or f" {either} " in items else items
        words = [gettext("list of %(items)s") % {"items": items}]
    low, high = (schema.get(name) or None for name in ("minItems", "maxItems"))
    words += _numbers({"minimum": low, "maximum": high})
    return words + ([gettext("all different")] if schema.get("uniqueItems") else [])


def _numbers(schema: JSONSchema) -> list[str]:
    """Return the bounds of a number, or of the number of items."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if low == high:
        return [] if low is None else [gettext("exactly %(number)s") % {"number": low}]
    if low is None:
        return [gettext("at most %(number)s") % {"number": high}]
    if high is None:
        return [gettext("at least %(number)s") % {"number": low}]
    return [gettext("%(low)s to %(high)s") % {"low": low, "high": high}]


def _lengths(schema: JSONSchema) -> list[str]:
    """Return the bounds of the length of a text."""
    low, high = (schema.get(name) or None for name in ("minLength", "maxLength"))
    if low == high:
        if low is None:
            return []
        text = ngettext("exactly %(count)d character", "exactly %(count)d characters", low)
        return [text % {"count": low}]
    if low is None and high is not None:
        text = ngettext("at most %(count)d character", "at most %(count)d characters", high)
        return [text % {"count": high}]
    if low is not None and high is None:
        text = ngettext("at least %(count)d character", "at least %(count)d characters", low)
        return [text % {"count": low}]
    text = ngettext("%(low)d to %(high)d character", "%(low)d to %(high)d characters", high or 0)
    return [text % {"low": low, "high": high}]


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
                    values = {"number": number, "all": len(holding)}
                    kind = gettext("kind %(number)d of %(all)d") % values
                    inner = place._replace(path=place.path or kind)
                    yield from self.member(each, inner, kind=kind)

    def member(
        self, schema: object, place: _Place, *, required: bool = False, kind: str = ""
    ) -> Iterator[Row]:
        """Yield the row of a schema, and the rows of its members."""
        known, _seen = self.document.merged(schema, place.seen)
        text = gettext("Under any other name.") if place.path.endswith("*") else ""
        words = describe_type(schema, self.document, place.seen)
        yield Row(
            place.path,
            place.level,
            gettext("%(kind)s: %(type)s") % {"kind": kind, "type": words} if kind else words,
            required,
            as_json(known["default"]) if "default" in known else "",
            str(known.get("description", text)),
        )
        yield from self.members(
            schema, place._replace(level=place.level + 1, depth=place.depth + 1)
        )

    def holds(self, schema: object, seen: frozenset[int]) -> bool:
        branch, _seen = self.document.merged(schema, seen)
        return branch.keys().isdisjoint(REFERENCES) and any(map(branch.get, _HOLDING))
