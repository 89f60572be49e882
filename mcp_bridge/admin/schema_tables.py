"""Tables of the members of a JSON Schema (2020-12), with types in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import unquote

from django.utils.functional import Promise
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from mcp_bridge.protocol import JSONSchema
from mcp_bridge.protocol.text import cut
from mcp_bridge.schemas.walk import REFERENCES, SchemaDocument

MAX_ROWS: Final = 200
# Members nested deeper are only in the JSON.
MAX_LEVEL: Final = 6
# Limits of types in words: levels, branches or values at each of them, and characters.
_DEPTH: Final = 2
_NAMED: Final = 20
_LONGEST: Final = 300
_BRANCHES: Final = {"anyOf": _("or"), "oneOf": _("or"), "allOf": _("and")}
# The word for a schema that accepts any value.
ANYTHING: Final = _("anything")
KINDS: Final[Mapping[str, Promise]] = {
    "array": _("list"),
    "boolean": pgettext_lazy("type of a parameter", "boolean"),
    "integer": pgettext_lazy("type of a parameter", "integer"),
    "null": pgettext_lazy("type of a parameter", "null"),
    "number": pgettext_lazy("type of a parameter", "number"),
    "object": pgettext_lazy("type of a parameter", "object"),
    "string": pgettext_lazy("type of a parameter", "string"),
}
# Types that are obvious from their inputs.
PLAIN: Final = (KINDS["string"], KINDS["boolean"], ANYTHING)
# Keywords that limit the values of a type.
LIMITS: Final[Mapping[str, Promise]] = {
    "format": _("format"),
    "pattern": _("pattern"),
    "minLength": _("minimum length"),
    "maxLength": _("maximum length"),
    "minimum": _("minimum"),
    "exclusiveMinimum": _("more than"),
    "maximum": _("maximum"),
    "exclusiveMaximum": _("less than"),
    "multipleOf": _("a multiple of"),
    "minItems": _("fewest items"),
    "maxItems": _("most items"),
    "uniqueItems": _("all items different"),
    "contentEncoding": _("encoding"),
}


class Row(NamedTuple):
    """One member of a schema, at ``level`` from 0; ``default`` is JSON, or "" without one."""

    # "*" stands for any other name.
    name: str
    level: int
    type: str
    required: bool = False
    default: str = ""
    description: str = ""


def parameters(schema: JSONSchema) -> list[Row]:
    """Return the members of an input or output schema: at most MAX_ROWS, and a note."""
    rows = list(islice(_members(SchemaDocument(schema), schema), MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        text = gettext("more than %(rows)d rows; see the JSON for all")
        rows[MAX_ROWS] = Row("…", 0, text % {"rows": MAX_ROWS})
    return rows


def spelled(name: str) -> str:
    """Return a member's name, in quotation marks if it is unusual."""
    usual = name.replace("-", "_").isidentifier() or (name.isalnum() and name.isprintable())
    return name if usual else json.dumps(name, ensure_ascii=False)


def as_json(value: object, length: int = _LONGEST) -> str:
    """Return a value as JSON on one line, truncated."""
    return cut(json.dumps(value, ensure_ascii=False, default=str), length)


def choice(value: object) -> str:
    """Return a text for one value of an enum: simple words unchanged, others as JSON."""
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
    Return the values that a schema accepts, such as "integer, minimum 1" or "list of string".

    ``seen`` are the ids of the schemas followed through references so far.
    """
    known, seen = document.merged(schema, seen)
    for keyword in REFERENCES:
        if keyword in known:
            # Unresolvable, or a reference to an enclosing schema.
            return unquote(known[keyword].rpartition("/")[2])
    if "enum" in known or "const" in known:
        values = known["enum"] if "enum" in known else [known["const"]]
        texts = [*map(choice, values[:_NAMED]), *(["…"] if len(values) > _NAMED else [])]
        return cut(gettext("one of: %(values)s") % {"values": ", ".join(texts)}, _LONGEST)
    if depth > _DEPTH:
        return "…"
    words, joint = [str(KINDS.get(kind, kind)) for kind in kinds_of(known)], gettext("or")
    for keyword, between in _BRANCHES.items():
        if not words and known.get(keyword):
            branches = known[keyword][:_NAMED]
            words = [describe_type(each, document, seen, depth + 1) for each in branches]
            joint = str(between)
    if "items" in known and str(KINDS["array"]) in words:
        items = describe_type(known["items"], document, seen, depth + 1)
        at = words.index(str(KINDS["array"]))
        words[at] = gettext("list of %(items)s") % {
            "items": f"({items})" if "," in items else items
        }
    comma = "," if any("," in each for each in words) else ""
    text = f"{comma} {joint} ".join(dict.fromkeys(words))
    if not text:
        other = gettext("nothing") if known.get("not") == {} else str(ANYTHING)
        text = str(KINDS["object"]) if "properties" in known else other
    limits = [
        str(label) if known[name] is True else f"{label} {cut(str(known[name]), 80)}"
        for name, label in LIMITS.items()
        if name in known
    ]
    return cut(", ".join([text, *limits]), _LONGEST)


def _members(
    document: SchemaDocument, schema: object, seen: frozenset[int] = frozenset(), level: int = 0
) -> Iterator[Row]:
    """Yield a row for each member of a schema, followed by its nested members."""
    # Also its items and branches, whose members belong to the same value.
    pending = [(schema, seen)] if level <= MAX_LEVEL else []
    # References can make a small schema very large.
    for _step in range(MAX_ROWS):
        if not pending:
            return
        known, within = document.merged(*pending.pop(0))
        required, others = known.get("required", ()), known.get("additionalProperties")
        found = [(spelled(name), each) for name, each in known.get("properties", {}).items()]
        required = [spelled(name) for name in required]
        for name, each in [*found, *([("*", others)] if others not in (None, False) else [])]:
            about, _seen = document.merged(each, within)
            yield Row(
                name,
                level,
                describe_type(each, document, within),
                name in required,
                as_json(about["default"]) if "default" in about else "",
                str(about.get("description", "")),
            )
            yield from _members(document, each, within, level + 1)
        inner = [known.get("items"), *known.get("prefixItems", ())]
        inner += [each for keyword in _BRANCHES for each in known.get(keyword, ())]
        pending += [(each, within) for each in inner if isinstance(each, Mapping)]
