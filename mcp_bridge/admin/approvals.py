"""Tools as shown for approval: who can use them, and what has changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import reduce
from html import unescape
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
from mcp_bridge.confirmation.decisions import ending
from mcp_bridge.protocol.text import cut, printable
from mcp_bridge.registry.fingerprints import differences

# The most characters of a value in the history.
_MOST_CHARACTERS: Final = 80
# Longer texts (in words) are compared line by line, and texts with more lines not at all.
_WORDS: Final = 2_000

_MEMBERS: Final[Mapping[str, Promise]] = {
    "_meta": _("data for clients"),
    "annotations": _("hints"),
    "annotations.destructiveHint": _("hint: deletes"),
    "annotations.idempotentHint": _("hint: idempotent"),
    "annotations.openWorldHint": _("hint: external systems"),
    "annotations.readOnlyHint": _("hint: read-only"),
    "conditions": _("access conditions in code"),
    "confirm": _("requires confirmation"),
    "description": _("description"),
    "icons": _("icons"),
    "inputSchema": _("parameters"),
    "name": _("name"),
    "outputSchema": _("result"),
    "permissions": _("required permissions"),
    "precheck": _("check before each call"),
    "public": _("public, no login required"),
    "scopes": _("required scopes"),
    "target": _("target of calls"),
    "throttle": _("rate limit per caller"),
    "title": _("title"),
}
_KEYWORDS: Final[Mapping[str, Promise]] = {
    **LIMITS,
    "$ref": _("shared definition"),
    "additionalProperties": _("additional members allowed"),
    "allOf": _("all of these types"),
    "anyOf": _("one of these types"),
    "const": _("the only value"),
    "default": _("default"),
    "description": _("description"),
    "enum": _("allowed values"),
    "examples": _("examples"),
    "items": _("type of each item"),
    "oneOf": _("exactly one of these types"),
    "prefixItems": _("types of the items, in order"),
    "properties": _("members"),
    "required": _("required members"),
    "title": _("title"),
    "type": _("type"),
}
_MEMBER_OF: Final = _("%(what)s: %(member)s")


class Piece(NamedTuple):
    """A part of a text; ``marked`` if the other text differs here."""

    text: str
    marked: bool = False


class Change(NamedTuple):
    """One change. ``before`` or ``now`` is None if the value is absent."""

    what: str
    path: str
    before: list[Piece] | None
    now: list[Piece] | None


class Definition(NamedTuple):
    """A tool as shown for approval; ``audience`` is None if the tool is gone."""

    entry: Entry
    audience: Audience | None
    # Names and titles of the required permissions.
    needed: Sequence[tuple[str, str]]
    # The number of pending calls that end if it is approved.
    ending: int = 0

    @property
    def warning(self) -> str:
        """A warning if no one can use it, or everyone can and it may change data; else ""."""
        return cell("warning", {"tool": self.entry.shown, "audience": self.audience})

    @property
    def changes(self) -> list[Change]:
        """The changes since the last approval; empty for a new tool."""
        setting = self.entry.setting
        if not setting.fingerprint:
            return []
        return changes(setting.approved, self.entry.canonical_definition)

    def users(self, request: HttpRequest) -> list[tuple[object, str]]:
        """Return keys and names of the first users who can use it, for those who may view users."""
        return named(self.audience) if self.audience and may_view_users(request) else []

    @property
    def raw(self) -> str:
        """The definition to approve, as JSON text."""
        return json.dumps(json.loads(self.entry.canonical_definition), indent=2, ensure_ascii=False)

    @property
    def effect(self) -> tuple[str, int]:
        """A message after a settings change, with its level: who can use the tool now."""
        is_available = self.audience is not None and self.entry.is_served
        warning = self.warning if is_available and self.entry.setting.enabled else ""
        shown = {"each": self, "is_available": is_available, "warning": warning}
        # Plain text, which pages escape.
        text = unescape(cell("effect", shown))
        return text, constants.WARNING if warning else constants.SUCCESS


def definitions(entries: Iterable[Entry]) -> list[Definition]:
    """Return the entries as definitions; at most eight queries."""
    found = [(entry, entry.shown.access if entry.shown else None) for entry in entries]
    rules = {rule for _entry, rule in found if rule}
    audiences = Audiences(rules)
    titles = permission_titles(name for rule in rules for name in rule.permissions)
    needed = {rule: [(name, titles[name]) for name in rule.permissions] for rule in rules}
    ended = ending(entry.shown for entry, _rule in found if entry.shown and entry.waits)
    return [
        Definition(entry, audiences.of(rule), needed[rule], ended[entry.setting.label])
        if rule
        else Definition(entry, None, ())
        for entry, rule in found
    ]


def changed(label: str, before: object, now: object) -> str:
    """Return a change of a value: "Enabled: on → off"."""
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
        # The parents are in both; one may lack the member.
        *above, name = each.names
        before, now = (
            _described(value, each.names) if name in reduce(getitem, above, document) else None
            for document, value in zip(documents, (each.old, each.new), strict=True)
        )
        found.append(Change(_describe_path(each.names), each.path, *_compare(before, now)))
    return found


def _describe_path(path: Sequence[str]) -> str:
    """Return a member's path in words, such as "parameter slug: maximum length"."""
    member = _MEMBERS.get(".".join(path))
    if member is not None:
        return str(member)
    head, *names = path
    if head not in ("inputSchema", "outputSchema"):
        return _MEMBER_OF % {"what": _MEMBERS.get(head, head), "member": ".".join(names)}
    noun = gettext("parameter") if head == "inputSchema" else gettext("result")
    within = keyword = ""
    while names and not keyword:
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
    named = gettext("%(noun)s %(name)s") % {"noun": noun, "name": within}
    what = named if within else str(_MEMBERS[head])
    return _MEMBER_OF % {"what": what, "member": keyword} if keyword else what


def _described(value: object, path: Sequence[str]) -> str:
    """Return the value of a member for people: plain values as text, others as JSON."""
    if isinstance(value, bool):
        hint = HINTS.get((path[-1], value)) if path[0] == "annotations" else None
        return str(hint[1]) if hint else gettext("yes") if value else gettext("no")
    if isinstance(value, str):
        return value or gettext("(empty)")
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value) or gettext("(none)")
    return json.dumps(value, indent=2, ensure_ascii=False)


def _compare(old: str | None, new: str | None) -> tuple[list[Piece] | None, list[Piece] | None]:
    """Return both texts in pieces; those missing from the other text are marked."""
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
