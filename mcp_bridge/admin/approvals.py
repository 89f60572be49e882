"""Tools as they are shown to those who decide on them: who can use them, and what has changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import reduce
from operator import getitem
from typing import Any, Final, NamedTuple

from django.contrib.messages import constants
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.audience import Audience, Audiences, named, permission_titles
from mcp_bridge.admin.base import cell, may_view_users
from mcp_bridge.admin.entries import HINTS, Entry
from mcp_bridge.admin.schema_tables import LIMITS, spelled
from mcp_bridge.protocol.text import cut, printable
from mcp_bridge.registry.fingerprints import differences

# The most characters of a value in the history.
_MOST_CHARACTERS: Final = 80
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


class Definition(NamedTuple):
    """A tool as it is shown to somebody who decides on it; without an audience if it is gone."""

    entry: Entry
    audience: Audience | None
    # The permissions that a caller needs, and what they are called.
    needed: Sequence[tuple[str, str]]

    @property
    def warning(self) -> str:
        """A warning if nobody can use it, or all can and it may change data; else ""."""
        return cell("warning", {"tool": self.entry.shown, "audience": self.audience})

    @property
    def changes(self) -> list[Change]:
        """What has changed since it was approved; nothing where it is new."""
        setting = self.entry.setting
        if not setting.fingerprint:
            return []
        return changes(setting.approved, self.entry.canonical_definition)

    def users(self, request: HttpRequest) -> list[tuple[object, str]]:
        """Return keys and names of the first users who can, for those who may view users."""
        return named(self.audience) if self.audience and may_view_users(request) else []

    @property
    def raw(self) -> str:
        """All that is approved, as JSON text."""
        return json.dumps(json.loads(self.entry.canonical_definition), indent=2, ensure_ascii=False)

    @property
    def effect(self) -> tuple[str, int]:
        """A message after a change of its settings, with its level: who can use it now."""
        entry, values = self.entry, {"name": self.entry.setting.name}
        if not entry.setting.enabled:
            return gettext("“%(name)s” is disabled.") % values, constants.SUCCESS
        if self.audience is None or not entry.is_served:
            text = gettext("“%(name)s” is enabled, but not available: %(status)s.")
            return text % {**values, "status": entry.label}, constants.SUCCESS
        text = gettext("“%(name)s” is enabled.") % values
        if self.audience.public or self.audience.count is not None:
            text = gettext("“%(name)s” is enabled for %(audience)s.")
            text %= {**values, "audience": self.audience}
        found = self.warning
        return (f"{text} {found}", constants.WARNING) if found else (text, constants.SUCCESS)


def definitions(entries: Iterable[Entry]) -> list[Definition]:
    """Return entries as they are shown; at most seven queries."""
    found = [(entry, entry.shown.access if entry.shown else None) for entry in entries]
    rules = {rule for _entry, rule in found if rule}
    audiences = Audiences(rules)
    titles = permission_titles(name for rule in rules for name in rule.permissions)
    return [
        Definition(entry, audiences.of(rule), [(name, titles[name]) for name in rule.permissions])
        if rule
        else Definition(entry, None, ())
        for entry, rule in found
    ]


def changed(label: str, before: object, now: object) -> str:
    """Return a value before and now: "Enabled: on → off"."""
    values = {"name": capfirst(label), "before": _written(before), "now": _written(now)}
    return gettext("%(name)s: %(before)s → %(now)s") % values


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return gettext("on") if value else gettext("off")
    if not isinstance(value, str) and value is not None:
        value = ", ".join(sorted(map(str, value)))
    if not value:
        return gettext("none")
    text = cut(printable(" ".join(value.split())), _MOST_CHARACTERS)
    return gettext("“%(name)s”") % {"name": text}


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
        elif name in ("properties", "patternProperties", "$defs") and names:
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
