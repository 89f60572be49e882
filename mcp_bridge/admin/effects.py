"""What a change of settings does, for messages and for the history, and warnings of its reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.contrib.messages import constants
from django.utils.text import Truncator, capfirst
from django.utils.translation import gettext, ngettext

from mcp_bridge.admin.audience import Audience, Audiences
from mcp_bridge.admin.entries import Entry
from mcp_bridge.features import Tool
from mcp_bridge.models import ToolSetting
from mcp_bridge.protocol.text import printable

# The most tools of one change that messages name.
MOST_NAMED: Final = 10
_MOST_CHARACTERS: Final = 80


def effects(rows: Sequence[ToolSetting]) -> list[tuple[str, int]]:
    """Return a message for each tool, MOST_NAMED at most, with its level: who can use it now."""
    entries = [Entry.of(row) for row in rows[:MOST_NAMED]]
    audiences = Audiences(entry.rule for entry in entries if entry.rule)
    found = [_effect(entry, audiences) for entry in entries]
    if (rest := len(rows) - len(entries)) > 0:
        text = ngettext(
            "%(count)d more tool was changed.", "%(count)d more tools were changed.", rest
        )
        found.append((text % {"count": rest}, constants.SUCCESS))
    return found


def _effect(entry: Entry, audiences: Audiences) -> tuple[str, int]:
    values: dict[str, object] = {"name": entry.setting.name}
    if not entry.setting.enabled:
        return gettext("“%(name)s” is disabled.") % values, constants.SUCCESS
    if entry.shown is None or not entry.is_served:
        text = gettext("“%(name)s” is enabled, but not available: %(status)s.")
        return text % {**values, "status": entry.label}, constants.SUCCESS
    audience = audiences.of(entry.shown.access)
    text = gettext("“%(name)s” is enabled.") % values
    if audience.public or audience.count is not None:
        text = gettext("“%(name)s” is enabled for %(audience)s.")
        text %= {**values, "audience": audience}
    found = warning(entry.shown, audience)
    return (f"{text} {found}", constants.WARNING) if found else (text, constants.SUCCESS)


def who(entry: Entry, audience: Audience | None) -> str:
    """Return in words who can use a tool now, and who could if it were served."""
    if audience is None:
        return gettext("nobody")
    if entry.is_served:
        return str(audience)
    return gettext("nobody now; when it is on: %(audience)s") % {"audience": audience}


def warning(tool: Tool, audience: Audience) -> str:
    """Return a warning if nobody can use a tool, or all can and it may change data; else ""."""
    if audience.public:
        if tool.is_read_only or audience.further:
            return ""
        return gettext("Everybody can use it, signed in or not, and it may change data.")
    if audience.count == 0:
        if tool.access.groups is None:
            return gettext("Nobody can use it: no active user has the permissions that it needs.")
        if not tool.access.groups:
            return gettext("Nobody can use it: it is only for groups, and no group is chosen.")
        return gettext(
            "Nobody can use it: no active user is in its groups and has the permissions that it "
            "needs."
        )
    # MCP schema, ToolAnnotations: the default of destructiveHint is true.
    may_delete = not tool.is_read_only and tool.annotations.get("destructiveHint", True)
    # An access rule in code may refuse any of them.
    if audience.is_every_user and not audience.further and may_delete:
        return gettext("Every user of the site can use it, and it may delete or overwrite.")
    return ""


def changed_fields(form: Any) -> str:
    """Return the fields that a form has changed, each with its value before and now."""
    return "; ".join(
        changed(
            str(form.fields[name].label),
            form.get_initial_for_field(form.fields[name], name),
            form.cleaned_data[name],
        )
        for name in form.changed_data
    )


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
    text = Truncator(printable(" ".join(value.split()))).chars(_MOST_CHARACTERS)
    return gettext("“%(name)s”") % {"name": text}
