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

from mcp_bridge.admin.schema_tables import describe_type, spelled, with_null_as_type
from mcp_bridge.registry.definitions import change_schemas
from mcp_bridge.registry.fingerprints import differences
from mcp_bridge.schemas.walk import SchemaDocument

# Texts of more words than this are compared line by line, and of more lines not at all.
_WORDS: Final = 2_000

_MEMBERS: Final[Mapping[str, Promise]] = {
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
        # Scopes are not enforced, so that nobody decides about them.
        if each.names[0] != "scopes":
            # Both have the object in which they differ, and one may lack the member.
            *above, name = each.names
            texts = [
                _text(value, each.names) if name in reduce(getitem, above, document) else None
                for document, value in ((before, each.old), (now, each.new))
            ]
            found.append(Change(_describe_path(each.names), each.path, *_compare(*texts)))
    return found


def _describe_path(path: Sequence[str]) -> str:
    """Return words for the path of a member, such as "parameter slug: maximum length"."""
    member = _MEMBERS.get(".".join(path))
    if member is not None:
        return str(member)
    head, *names = path
    if head not in ("inputSchema", "outputSchema"):
        return f"{_MEMBERS.get(head, head)}: {'.'.join(names)}"
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
            return f"{noun} {within}: {keyword}" if within else f"{_MEMBERS[head]}: {keyword}"
    return f"{noun} {within}"


def _text(value: object, path: Sequence[str]) -> str:
    """Return the value of a member as a text to read."""
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if isinstance(value, str):
        return value or gettext("(empty)")
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value) or gettext("(none)")
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if isinstance(value, Mapping) and path[-2:-1] and path[-2] in _NESTED:
        lines = [describe_type(value, SchemaDocument({})), value.get("description", ""), text]
        return "\n".join(filter(None, lines))
    return text


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
