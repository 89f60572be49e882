"""What has changed in a tool since it was approved, in words, each text before and now."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any, Final

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.schema_tables import in_words as kind_of
from mcp_bridge.admin.schema_tables import spelled
from mcp_bridge.registry.fingerprints import differences
from mcp_bridge.schemas.walk import SchemaDocument

# Texts of more words than this are compared line by line, and of more lines not at all.
_WORDS: Final = 2_000

_MEMBERS: Final[Mapping[str, Any]] = {
    "_meta": _("data for clients"),
    "annotations": _("hints"),
    "annotations.destructiveHint": _("hint: destructive"),
    "annotations.idempotentHint": _("hint: idempotent"),
    "annotations.openWorldHint": _("hint: open world"),
    "annotations.readOnlyHint": _("hint: read-only"),
    "confirm": _("a person has to agree to each call"),
    "description": _("description"),
    "icons": _("icons"),
    "inputSchema": _("parameters"),
    "name": _("name"),
    "outputSchema": _("result"),
    "permissions": _("permissions that a caller needs"),
    "public": _("open to everybody, signed in or not"),
    "scopes": _("scopes that a token needs"),
    "title": _("title"),
}
_KEYWORDS: Final[Mapping[str, Any]] = {
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
# What a new tool is shown in parts of.
_PARTED: Final = ("annotations", "inputSchema", "outputSchema")
_NESTED: Final = ("properties", "patternProperties", "$defs")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text; ``marked`` where the other text has something else."""

    text: str
    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that has changed. ``before`` or ``now`` is None where it is not there."""

    what: str
    path: str
    before: list[Piece] | None
    now: list[Piece] | None

    @property
    def kind(self) -> str:
        if self.before is None:
            return gettext("added")
        return gettext("removed") if self.now is None else gettext("changed")


def changes(old: str, new: str) -> list[Change]:
    """
    All changes between two portraits.

    Where ``old`` is empty, each thing in the new one is added by itself.
    """
    now = json.loads(new)
    before = json.loads(old) if old else _outlined(now)
    found = []
    for each in differences(json.dumps(before), new):
        texts = [
            _written(value, each.names) if _holds(document, each.names) else None
            for document, value in ((before, each.old), (now, each.new))
        ]
        pieces = _compared(*texts)
        what = in_words(each.names)
        found.append(Change(what=what, path=each.path, before=pieces[0], now=pieces[1]))
    return found


def _outlined(new: Mapping[str, Any]) -> dict[str, Any]:
    """The parts that a portrait has, with nothing in them."""
    found = {name: new[name] for name in _PARTED if name in new}
    return {
        name: {key: {} for key in ("properties",) if key in each} for name, each in found.items()
    }


def in_words(names: Sequence[str]) -> str:
    """The path of a member, such as "parameter slug: maximum length"."""
    whole = _MEMBERS.get(".".join(names))
    if whole is not None:
        return str(whole)
    head, *rest = names
    if head in ("inputSchema", "outputSchema"):
        noun = gettext("parameter") if head == "inputSchema" else gettext("result")
        return _within(noun, str(_MEMBERS[head]), rest)
    return f"{_MEMBERS.get(head, head)}: {'.'.join(rest)}"


def _within(noun: str, whole: str, rest: list[str]) -> str:
    """The path within a schema; ``noun`` is what a member of it is called."""
    member, names = "", list(rest)
    while names:
        name = names.pop(0)
        if name == "$defs" and names:
            noun, member = gettext("shared definition"), spelled(names.pop(0))
        elif name in _NESTED and names:
            key = spelled(names.pop(0))
            member = f"{member}.{key}" if member else key
        elif name in ("items", "additionalProperties") and names:
            member += "[]" if name == "items" else ".*"
        else:
            about = ".".join([str(_KEYWORDS.get(name, name)), *names])
            return f"{noun} {member}: {about}" if member else f"{whole}: {about}"
    return f"{noun} {member}"


def _holds(document: Any, names: Iterable[str]) -> bool:
    for name in names:
        if not isinstance(document, Mapping) or name not in document:
            return False
        document = document[name]
    return True


def _written(value: Any, names: Sequence[str]) -> str:
    if isinstance(value, Mapping) and names[-2:-1] and names[-2] in _NESTED:
        text = json.dumps(value, indent=2, ensure_ascii=False)
        return "\n".join(
            filter(None, [kind_of(value, SchemaDocument({})), value.get("description", ""), text])
        )
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if isinstance(value, str):
        return value or gettext("(empty)")
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value) or gettext("(none)")
    return json.dumps(value, indent=2, ensure_ascii=False)


def _compared(old: str | None, new: str | None) -> tuple[list[Piece] | None, list[Piece] | None]:
    """Both texts in pieces, of which those are marked that the other one does not have."""
    if old is None or new is None:
        return (old if old is None else [Piece(old)]), (new if new is None else [Piece(new)])
    parts = [re.findall(r"\s*(?:\w+|[^\w\s])|\s+", text) for text in (old, new)]
    if max(map(len, parts)) > _WORDS:
        parts = [text.splitlines(keepends=True) for text in (old, new)]
    if max(map(len, parts)) > _WORDS:
        return [Piece(old, True)], [Piece(new, True)]
    before, now = parts
    blocks = SequenceMatcher(None, before, now).get_matching_blocks()
    same = [(0, 0, 0), *blocks]
    pieces: tuple[list[Piece], list[Piece]] = ([], [])
    for (i, j, size), (next_i, next_j, _size) in pairwise(same):
        _add(pieces[0], before[i : i + size], before[i + size : next_i])
        _add(pieces[1], now[j : j + size], now[j + size : next_j])
    return pieces


def _add(pieces: list[Piece], same: list[str], other: list[str]) -> None:
    pieces += [Piece("".join(same))] if same else []
    pieces += [Piece("".join(other), True)] if other else []
