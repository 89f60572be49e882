"""Definitions of tools as they are shown to be approved, and their approval."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest

from mcp_bridge.admin.audience import Audience, Audiences, may_view_users, named
from mcp_bridge.admin.differences import Change, changes
from mcp_bridge.admin.effects import warning, who
from mcp_bridge.admin.entries import Entry
from mcp_bridge.admin.permissions import permission_titles
from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.tool_status import APPROVAL, mark_approved

# The tools on a page of those that wait, which is as many as a person reads in one go.
PER_PAGE: Final = 20


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as it is shown to somebody who is to approve it."""

    entry: Entry
    audience: Audience
    # The permissions that a caller needs, and what they are called.
    needed: Sequence[tuple[str, str]]

    # What is approved are the code's own words, also where administrators have set others.

    @property
    def title(self) -> str:
        return str((self.entry.tool and self.entry.tool.title) or self.entry.setting.name)

    @property
    def description(self) -> str:
        return str(self.entry.tool.description) if self.entry.tool else ""

    @property
    def warning(self) -> str:
        return warning(self.entry.shown, self.audience) if self.entry.shown else ""

    @property
    def changes(self) -> list[Change]:
        """What has changed since it was approved; nothing where it is new."""
        setting = self.entry.setting
        if not setting.fingerprint:
            return []
        return changes(setting.approved, self.entry.canonical_definition)

    @property
    def who(self) -> str:
        """Who can use it now, or could if it were served."""
        return who(self.entry, self.audience)

    def users(self, request: HttpRequest) -> list[tuple[object, str]]:
        """Return keys and names of the first users who can, for those who may view users."""
        return named(self.audience) if may_view_users(request) else []

    @property
    def raw(self) -> str:
        """All that is approved, as JSON text."""
        return json.dumps(json.loads(self.entry.canonical_definition), indent=2, ensure_ascii=False)


def definitions(entries: Iterable[Entry]) -> list[Definition]:
    """Return the definitions of the entries that have a tool."""
    found = [(entry, entry.rule) for entry in entries if entry.rule is not None]
    audiences = Audiences(rule for _entry, rule in found)
    titles = permission_titles(name for _entry, rule in found for name in rule.permissions)
    return [
        Definition(entry, audiences.of(rule), [(name, titles[name]) for name in rule.permissions])
        for entry, rule in found
    ]


def approve(setting: ToolSetting, given: str, by: Any) -> bool:
    """Approve a tool that waits, if its definition has the given fingerprint; return whether."""
    entry = Entry.of(setting)
    if entry.tool is None or not entry.waits or given != entry.fingerprint:
        return False
    mark_approved(setting, entry.tool, by=by)
    setting.save(update_fields=APPROVAL)
    return True
