"""What a change of settings does, in words: for the message after it, and for the history."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.messages import constants
from django.db.models import QuerySet
from django.utils.text import Truncator, capfirst
from django.utils.translation import gettext, ngettext

from mcp_bridge.admin.audience import Audience, Audiences
from mcp_bridge.admin.entries import Entry
from mcp_bridge.admin.warnings import may_delete, warning
from mcp_bridge.features import Tool
from mcp_bridge.models import ToolSetting
from mcp_bridge.protocol.text import printable

# The most tools of one change that are named in messages.
NAMED_CHANGES: Final = 10
_MOST: Final = 80


@dataclass(frozen=True)
class Change:
    """A tool before and after a change, of which ``described`` is all but whether it is on."""

    before: Entry
    after: Entry
    described: str

    def message(self, audiences: Audiences) -> tuple[str, int]:
        """Return what has changed for people, and the message's level."""
        was, now = (
            audiences.of(each.rule) if each.rule and each.is_served else None
            for each in (self.before, self.after)
        )
        text, level = self._text(was, now), constants.SUCCESS
        if now is not None and (shown := self.after.shown):
            is_for_all = now.public and not (was and was.public)
            is_for_nobody = now.count == 0 and not now.public
            found = warning(shown, now)
            is_said = now.public or is_for_nobody or can_use(shown, now) in text
            if found and not is_said:
                text += f" {found}"
            level = constants.WARNING if is_for_all or is_for_nobody or found else level
        return text, level

    def _text(self, was: Audience | None, now: Audience | None) -> str:
        name = {"name": self.after.setting.name}
        described = self.described
        is_on = self.after.setting.enabled
        is_switched = is_on is not self.before.setting.enabled
        if is_on and (is_switched or not described):
            head = _with_details(gettext("“%(name)s” is on") % name, described)
            if now is None:
                yet = gettext("nobody can use it yet (%(status)s).") % {"status": self.after.label}
                return _with_effect(head, yet)
            return self._with_users(head, now)
        if is_switched or not described:
            head = _with_details(gettext("“%(name)s” is off") % name, described)
            return _with_effect(head, cannot_use(was)) if was else f"{head}."
        head = _with_details(gettext("“%(name)s” was changed") % name, described)
        if now is None or was is None or was == now:
            return f"{head}."
        before = gettext("Before: %(audience)s.") % {"audience": was}
        return f"{self._with_users(head, now)} {before}"

    def _with_users(self, head: str, now: Audience) -> str:
        """Return the beginning of a sentence with who can use the tool now, or why nobody can."""
        shown = self.after.shown
        if shown is None:
            return f"{head}."
        found = warning(shown, now) if now.count == 0 else ""
        return f"{head}. {found}" if found else _with_effect(head, can_use(shown, now))


def _with_details(change: str, details: str) -> str:
    if not details:
        return change
    return gettext("%(change)s (%(details)s)") % {"change": change, "details": details}


def _with_effect(change: str, effect: str) -> str:
    return gettext("%(change)s: %(effect)s") % {"change": change, "effect": effect}


def before_change(setting: ToolSetting, **values: object) -> Entry:
    """Return a tool as it is with its settings now, or with these ``values`` of its fields."""
    setting = copy(setting)
    for name, value in values.items():
        setattr(setting, name, value)
    entry = Entry.of(setting)
    # Found out before the change is written, of which the copy would know some.
    _ = entry.shown, entry.status
    return entry


def messages_on(
    before: Sequence[tuple[Entry, str]], tools: QuerySet[ToolSetting]
) -> list[tuple[str, int]]:
    """
    Return a message on each tool that was changed, NAMED_CHANGES at most, with its level.

    ``before`` are the tools as they were, each with what is described of the change.
    """
    known = {entry.setting.pk: (entry, text) for entry, text in before[:NAMED_CHANGES]}
    rows = tools.filter(pk__in=known)
    changes = [Change(known[row.pk][0], Entry.of(row), known[row.pk][1]) for row in rows]
    rules = [entry.rule for each in changes for entry in (each.before, each.after)]
    audiences = Audiences(rule for rule in rules if rule)
    found = [change.message(audiences) for change in changes]
    if (rest := len(before) - len(known)) > 0:
        text = ngettext(
            "%(count)d more tool was changed.", "%(count)d more tools were changed.", rest
        )
        found.append((text % {"count": rest}, constants.SUCCESS))
    return found


def can_use(tool: Tool, audience: Audience) -> str:
    """Return the sentence on who can use a tool; where that is every user, on what it may do."""
    count = audience.count
    if audience.public:
        return gettext("everybody can use it, signed in or not.")
    if count is None:
        return gettext("those who may can use it.")
    if count == 0:
        return gettext("nobody can use it, since nobody has what it needs.")
    if audience.is_every_user:
        return _every_user_can(tool, audience.further, count)
    if audience.further:
        text = ngettext(
            "at most %(count)d person can use it.", "at most %(count)d people can use it.", count
        )
    else:
        text = ngettext("%(count)d person can use it.", "%(count)d people can use it.", count)
    return text % {"count": count}


def _every_user_can(tool: Tool, further: bool, count: int) -> str:
    people = ngettext("%(count)d person", "%(count)d people", count) % {"count": count}
    if further:
        text = gettext("at most every user of the site (%(people)s) can use it.")
    elif may_delete(tool):
        text = gettext(
            "every user of the site (%(people)s) can use it, and it may delete or overwrite."
        )
    else:
        text = gettext("every user of the site (%(people)s) can use it.")
    return text % {"people": people}


def cannot_use(audience: Audience) -> str:
    """Return the sentence on who could use a tool that is off now."""
    count = audience.count
    if audience.public or not count:
        return gettext("nobody can use it any more.")
    if audience.further:
        text = ngettext(
            "at most %(count)d person can no longer use it.",
            "at most %(count)d people can no longer use it.",
            count,
        )
    else:
        text = ngettext(
            "%(count)d person can no longer use it.",
            "%(count)d people can no longer use it.",
            count,
        )
    return text % {"count": count}


def changed_fields(form: Any) -> dict[str, str]:
    """Return by name each field that a form has changed, with its value before and now."""
    return {
        name: changed(
            str(form.fields[name].label),
            form.get_initial_for_field(form.fields[name], name),
            form.cleaned_data[name],
        )
        for name in form.changed_data
    }


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
    text = Truncator(printable(" ".join(value.split()))).chars(_MOST)
    return gettext("“%(name)s”") % {"name": text}
