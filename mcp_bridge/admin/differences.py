"""The changes of a tool since it was approved: what each is, its value before and now."""

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
from mcp_bridge.admin.schema_tables import LIMITS, spelled
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
    **LIMITS,
    "$ref": _("shared definition"),
    "additionalProperties": _("whether others are taken"),
    "allOf": _("all of these kinds"),
    "anyOf": _("one of these kinds"),
    "const": _("the only value"),
    "default": _("default"),
    "description": _("description"),
    "enum": _("allowed values"),
    "examples": _("examples"),
    "items": _("kind of each item"),
    "oneOf": _("exactly one of these kinds"),
    "prefixItems": _("kinds of the items, in order"),
    "properties": _("members"),
    "required": _("which are required"),
    "title": _("title"),
    "type": _("type"),
}
_MEMBER_OF: Final = _("%(what)s: %(member)s")
_NESTED: Final = ("properties", "patternProperties", "$defs")


class Piece(NamedTuple):
    """A part of a text; ``marked`` where the other text has something else."""

    text: str
    marked: bool = False


class Change(NamedTuple):
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
    """Return the changes between two canonical definitions, given as JSON text."""
    documents, found = [json.loads(old), json.loads(new)], []
    for each in differences(old, new):
        # Both have the object in which they differ, and one may lack the member.
        *above, name = each.names
        before, now = (
            _described(value, each.names) if name in reduce(getitem, above, document) else None
            for document, value in zip(documents, (each.old, each.new), strict=True)
        )
        found.append(Change(_describe_path(each.names), each.path, *_compare(before, now)))
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


def _described(value: object, path: Sequence[str]) -> str:
    """Return the value of a member for people: plain values in words, all else as JSON."""
    if isinstance(value, bool):
        hint = HINTS.get((path[-1], value)) if path[0] == "annotations" else None
        return str(hint[1]) if hint else gettext("yes") if value else gettext("no")
    if isinstance(value, str):
        return value or gettext("(empty)")
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value) or gettext("(none)")
    return json.dumps(value, indent=2, ensure_ascii=False)


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
