"""The changes of a tool since it was approved, in words, each text before and now."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import reduce
from operator import getitem
from typing import Final, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.entries import HINTS
from mcp_bridge.admin.schema_tables import KINDS, Row, parameters, spelled, with_null_as_type
from mcp_bridge.protocol import JSONSchema
from mcp_bridge.registry.definitions import change_schemas
from mcp_bridge.registry.fingerprints import differences

# Texts of more words than this are compared line by line, and of more lines not at all.
_WORDS: Final = 2_000

_MEMBERS: Final[Mapping[str, Promise]] = {
    "_meta": _("data for clients"),
    "annotations": _("hints"),
    "annotations.destructiveHint": _("hint: deletes"),
    "annotations.idempotentHint": _("hint: repeatable"),
    "annotations.openWorldHint": _("hint: reaches outside"),
    "annotations.readOnlyHint": _("hint: reads"),
    "conditions": _("conditions of the code for a caller"),
    "confirm": _("a person has to agree to each call"),
    "description": _("description"),
    "icons": _("icons"),
    "inputSchema": _("parameters"),
    "name": _("name"),
    "outputSchema": _("result"),
    "permissions": _("permissions that a caller needs"),
    "precheck": _("check of each call before it runs"),
    "public": _("open to everybody, signed in or not"),
    "scopes": _("scopes that a credential needs"),
    "target": _("where calls go"),
    "throttle": _("how often a caller may call it"),
    "title": _("title"),
}
_KEYWORDS: Final[Mapping[str, Promise]] = {
    "$ref": _("shared definition"),
    "additionalProperties": _("whether others are taken"),
    "allOf": _("all of these kinds"),
    "anyOf": _("one of these kinds"),
    "const": _("the only value"),
    "default": _("default"),
    "description": _("description"),
    "enum": _("allowed values"),
    "examples": _("examples"),
    "exclusiveMaximum": _("less than"),
    "exclusiveMinimum": _("more than"),
    "format": _("format"),
    "items": _("kind of each item"),
    "maxItems": _("most items"),
    "maxLength": _("maximum length"),
    "maximum": _("maximum"),
    "minItems": _("fewest items"),
    "minLength": _("minimum length"),
    "minimum": _("minimum"),
    "multipleOf": _("a multiple of"),
    "oneOf": _("exactly one of these kinds"),
    "pattern": _("pattern"),
    "prefixItems": _("kinds of the items, in order"),
    "properties": _("members"),
    "required": _("which are required"),
    "title": _("title"),
    "type": _("type"),
    "uniqueItems": _("all items different"),
}
_MEMBER_OF: Final = _("%(what)s: %(member)s")
_NESTED: Final = ("properties", "patternProperties", "$defs")
# What stands above the name of a member, which may be any word.
_ABOVE_NAMES: Final = [[name] for name in _NESTED]
_BRANCHES: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_HOLDING: Final = (*_BRANCHES, *_NESTED[:2], "items", "additionalProperties", "required")


class Piece(NamedTuple):
    """A part of a text; ``marked`` where the other text has something else."""

    text: str
    marked: bool = False


class Change(NamedTuple):
    """
    One thing that has changed. ``before`` or ``now`` is None where it is not there.

    ``raw`` are both as JSON, where the words say less than that.
    """

    what: str
    path: str
    before: list[Piece] | None
    now: list[Piece] | None
    raw: tuple[list[Piece] | None, list[Piece] | None] = (None, None)

    @property
    def is_only_raw(self) -> bool:
        """Whether the words for both are the same."""
        return self.before == self.now

    @property
    def kind(self) -> str:
        if self.before is None:
            return gettext("added")
        return gettext("removed") if self.now is None else gettext("changed")


def changes(old: str, new: str) -> list[Change]:
    """
    Return the changes between two canonical definitions, given as JSON text.

    Where ``old`` is empty, each member of the new one is added, and each parameter by itself.
    """
    # Other words for the same schema count only where they are all that has changed.
    return _changes(*map(_with_null_as_type, (old, new))) or _changes(old, new)


def _with_null_as_type(text: str) -> str:
    definition = json.loads(text or "{}")
    change_schemas(definition, with_null_as_type)
    return json.dumps(definition) if text else ""


def _changes(old: str, new: str) -> list[Change]:
    now = json.loads(new)
    if old:
        before = json.loads(old)
    else:
        parted = [name for name in ("annotations", "inputSchema", "outputSchema") if name in now]
        before = {name: {"properties": {}} if "properties" in now[name] else {} for name in parted}
    found = []
    for each in differences(json.dumps(before), new):
        # Both have the object in which they differ, and one may lack the member.
        *above, name = each.names
        sides = [
            _described(value, each.names, document.get(each.names[0]))
            if name in reduce(getitem, above, document)
            else (None, None)
            for document, value in ((before, each.old), (now, each.new))
        ]
        words, raw = (_compare(*texts) for texts in zip(*sides, strict=True))
        found.append(Change(_describe_path(each.names), each.path, *words, raw))
    return found


def _describe_path(path: Sequence[str]) -> str:
    """Return words for the path of a member, such as "parameter slug: maximum length"."""
    member = _MEMBERS.get(".".join(path))
    if member is not None:
        return str(member)
    head, *names = path
    if head not in ("inputSchema", "outputSchema"):
        return _MEMBER_OF % {"what": _MEMBERS.get(head, head), "member": ".".join(names)}
    noun = gettext("parameter") if head == "inputSchema" else gettext("result")
    within = ""
    while names:
        name = names.pop(0)
        if name == "$defs" and names:
            noun, within = gettext("shared definition"), spelled(names.pop(0))
        elif name in _NESTED and names:
            key = spelled(names.pop(0))
            within = f"{within}.{key}" if within else key
        elif name in ("items", "additionalProperties") and names:
            within += "[]" if name == "items" else ".*"
        else:
            keyword = ".".join([str(_KEYWORDS.get(name, name)), *names])
            what = _named(noun, within) if within else _MEMBERS[head]
            return _MEMBER_OF % {"what": what, "member": keyword}
    return _named(noun, within)


def _named(noun: str, name: str) -> str:
    return gettext("%(noun)s %(name)s") % {"noun": noun, "name": name}


def _described(value: object, path: Sequence[str], top: object) -> tuple[str, str | None]:
    """
    Return the value of a member in words, and as JSON where the words say less.

    ``top`` is the value of the first member of the path, to which references within it refer.
    """
    if (words := _hints(value, path) or _schema(value, path, top)) is not None:
        # Of one hint the sentence says all.
        is_all = isinstance(value, bool) and path[0] == "annotations"
        return words, None if is_all else json.dumps(value, indent=2, ensure_ascii=False)
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no"), None
    if isinstance(value, str):
        if path[0] in ("inputSchema", "outputSchema") and path[-1] == "type":
            return str(KINDS.get(value, value)), None
        return value or gettext("(empty)"), None
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value) or gettext("(none)"), None
    return json.dumps(value, indent=2, ensure_ascii=False), None


def _hints(value: object, path: Sequence[str]) -> str | None:
    """Return the sentences of hints, one a line; None for any other member, and where none is."""
    if path[0] != "annotations":
        return None
    given = value if isinstance(value, Mapping) else {path[-1]: value}
    pairs = [(name, each) for name, each in given.items() if isinstance(each, bool)]
    return "\n".join(str(HINTS[pair][1]) for pair in pairs if pair in HINTS) or None


def _schema(value: object, path: Sequence[str], top: object) -> str | None:
    """Return a part of a schema in words; None for what is no schema and holds none."""
    head, *names = path
    if head not in ("inputSchema", "outputSchema") or not isinstance(top, Mapping):
        return None
    keyword, above = (names or [""])[-1], names[-2:-1]
    if above in _ABOVE_NAMES or keyword in ("items", "additionalProperties"):
        return _lines(value, top) if isinstance(value, Mapping) else None
    if keyword in _BRANCHES and isinstance(value, list):
        return "\n".join(_lines(each, top) for each in value)
    if not isinstance(value, Mapping):
        return None
    if keyword in _NESTED:
        lines = ((spelled(name), _lines(each, top)) for name, each in value.items())
        return "\n".join(_MEMBER_OF % {"what": name, "member": text} for name, text in lines)
    return "\n".join(map(_line, parameters(value))) if not names else None


def _lines(schema: object, top: JSONSchema) -> str:
    """Return the type and the description of a schema, and those of its members below it."""
    # In the place of the whole, whose definitions its references name.
    beside = {name: each for name, each in top.items() if name not in _HOLDING}
    rows = parameters({**beside, "properties": {"-": schema}})
    return "\n".join(_line(row._replace(name=row.name[1:].removeprefix("."))) for row in rows)


def _line(row: Row) -> str:
    required = gettext("required") if row.required else ""
    default = gettext("default: %(value)s") % {"value": row.default} if row.default else ""
    about = "; ".join(filter(None, [row.type, required, default]))
    named = _MEMBER_OF % {"what": row.name, "member": about} if row.name else about
    return f"{named}. {row.description}" if row.description else named


def _compare(old: str | None, new: str | None) -> tuple[list[Piece] | None, list[Piece] | None]:
    """Return both texts in pieces, of which those are marked that the other one does not have."""
    if old is None or new is None:
        return (None if old is None else [Piece(old)]), (None if new is None else [Piece(new)])
    parts = [re.findall(r"\s*(?:\w+|[^\w\s])|\s+", text) for text in (old, new)]
    if max(map(len, parts)) > _WORDS:
        parts = [text.splitlines(keepends=True) for text in (old, new)]
    if max(map(len, parts)) > _WORDS:
        return [Piece(old, True)], [Piece(new, True)]
    pieces: tuple[list[Piece], list[Piece]] = ([], [])
    for kind, *bounds in SequenceMatcher(None, parts[0], parts[1]).get_opcodes():
        for side, words in enumerate(parts):
            if part := words[bounds[2 * side] : bounds[2 * side + 1]]:
                pieces[side].append(Piece("".join(part), kind != "equal"))
    return pieces
