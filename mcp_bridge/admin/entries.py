"""A tool in the code together with its settings, as the admin lists it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.access.throttling import ToolRateThrottle
from mcp_bridge.admin.base import cell
from mcp_bridge.admin.schema_tables import Row, parameters
from mcp_bridge.features import Feature, Tool
from mcp_bridge.models import ToolSetting
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry import tool_status
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.registry.linting import budget
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus

# By annotation and value: a short text for the list, and a sentence.
HINTS: Final[Mapping[tuple[str, bool], tuple[Promise, Promise]]] = {
    ("readOnlyHint", True): (_("read-only"), _("It only reads data.")),
    ("readOnlyHint", False): (_("writes"), _("It may change data.")),
    ("destructiveHint", True): (_("deletes"), _("It may delete or overwrite.")),
    ("destructiveHint", False): (_("does not delete"), _("It does not delete or overwrite.")),
    ("idempotentHint", True): (
        _("idempotent"),
        _("Repeating a call with the same arguments does not change anything more."),
    ),
    ("openWorldHint", True): (_("external"), _("It accesses systems outside of this site.")),
    ("openWorldHint", False): (_("internal"), _("It stays within this site.")),
}
NOTHING_SAID: Final = _("unknown")
_CONFIRM: Final = (_("requires confirmation"), _("It runs only after a person has approved it."))
# The end of a sentence.
_SENTENCE: Final = re.compile(r"(?<=[.!?。])\s+")


@dataclass(frozen=True)
class Entry:
    """
    The row of a tool, or of a feature of another kind, and the feature.

    It is None if it is gone or its candidate cannot be built.
    """

    setting: ToolSetting
    tool: Feature | None

    @classmethod
    def of(cls, setting: ToolSetting) -> Entry:
        return cls(setting, registry.discovered.by_label.get(setting.label))

    @cached_property
    def candidate(self) -> Tool | None:
        """The candidate that was enabled at some time and is not a tool now."""
        if self.tool is not None or not self.setting.chosen:
            return None
        return registry.discovered.candidates.get(self.setting.label)

    @cached_property
    def status(self) -> ToolStatus:
        if self.candidate is not None:
            return ToolStatus.UNBUILT if self.setting.enabled else ToolStatus.DISABLED
        return tool_status.status_of(self.tool, self.setting)

    @cached_property
    def shown(self) -> Feature | None:
        """The tool as models see it when it is served."""
        return None if self.tool is None else tool_status.with_settings(self.tool, self.setting)

    @property
    def source(self) -> str:
        found = self.tool or self.candidate
        return found.source if found else ""

    @property
    def schemas(self) -> list[tuple[str, list[Row], str]]:
        """Its schemas, each with a caption, as a table and as JSON text."""
        found = {} if self.shown is None else self.shown.schemas
        captions = {"input schema": gettext("Parameters"), "output schema": gettext("Result")}
        return [
            (caption, parameters(schema), json.dumps(schema, indent=2, ensure_ascii=False))
            for name, caption in captions.items()
            if (schema := found.get(name)) is not None
        ]

    @property
    def tokens(self) -> int:
        """Its approximate size in tokens when it is served."""
        return 0 if self.shown is None else budget(self.shown)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the definition in the code."""
        return fingerprint(self.canonical_definition)

    @property
    def title(self) -> str:
        return str((self.shown or self.setting).title or "")

    @property
    def description(self) -> str:
        return str((self.shown or self.setting).description)

    @property
    def summary(self) -> str:
        """The first sentence of the description of the tool or candidate."""
        text = self.description or str(self.candidate.description if self.candidate else "")
        paragraph = " ".join(text.strip().partition("\n\n")[0].split())
        return cut(_SENTENCE.split(paragraph, 1)[0], 160)

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that a client needs for it, from the code and the settings."""
        return () if self.shown is None else self.shown.access.scopes

    @property
    def waits(self) -> bool:
        """Whether it is pending approval."""
        return self.status in (ToolStatus.NEW, ToolStatus.CHANGED)

    @property
    def is_served(self) -> bool:
        return self.status is ToolStatus.SERVED or self.is_served_unapproved

    @property
    def is_served_unapproved(self) -> bool:
        """Whether it has changed and is served without approval, since DEBUG is on."""
        return self.tool is not None and tool_status.is_served_unapproved(
            self.tool, self.status, self.setting
        )

    @property
    def label(self) -> str:
        return cell("label", {"entry": self})

    @property
    def error(self) -> str:
        """The reason why an enabled candidate cannot be built."""
        return registry.errors.get(self.setting.name, "")

    @property
    def hints(self) -> list[tuple[Promise, Promise]]:
        """The code's hints, each as a short text and a sentence."""
        if self.tool is None:
            return []
        confirm = [_CONFIRM] if self.shown and self.shown.options.confirm else []
        return [*hints(self.tool), *confirm]

    @property
    def groups(self) -> str:
        """The groups that it is restricted to, in one line."""
        return ", ".join(sorted(str(group) for group in self.setting.groups.all()))

    @property
    def rate(self) -> str | None:
        """The effective rate, "" without one; None if it names an unknown rate."""
        try:
            rate = ToolRateThrottle().get_rate(self.tool) if self.tool else None
        except (ImproperlyConfigured, ValueError):
            return None
        return "" if rate is None else rate.text

    @property
    def canonical_definition(self) -> str:
        """The definition that is approved, as text; "" if the tool is gone."""
        return "" if self.tool is None else canonical_definition(self.tool)


def hints(tool: Feature) -> list[tuple[Promise, Promise]]:
    """Return the hints of a tool, each as a short text and a sentence."""
    given = tool.annotations if isinstance(tool, Tool) else {"readOnlyHint": True}
    return [HINTS[pair] for pair in given.items() if pair in HINTS]


def numbers(found: Sequence[Entry]) -> dict[str, int]:
    """Return the number of tools by status, and the total in the code."""
    counted = Counter(entry.status for entry in found)
    return {
        "on": sum(entry.is_served for entry in found),
        "off": counted[ToolStatus.DISABLED],
        "waiting": counted[ToolStatus.NEW] + counted[ToolStatus.CHANGED],
        "broken": counted[ToolStatus.UNBUILT],
        "gone": counted[ToolStatus.GONE],
        "total": counted.total() - counted[ToolStatus.GONE],
    }


def entries() -> list[Entry]:
    """Return the entries of all features, after creating missing rows."""
    rows = tool_status.read_settings()
    # Tools without a row, and changes that do not require approval.
    due = [
        tool
        for tool in registry.discovered
        if (row := rows.get(tool.key)) is None
        or not Entry(row, tool).waits
        and row.fingerprint != fingerprint(canonical_definition(tool))
    ]
    if due:
        tool_status.sync_tool_settings(due)
        rows = tool_status.read_settings()
    return [Entry.of(row) for row in rows.values()]


def entries_for(request: HttpRequest) -> list[Entry]:
    """Return the entries of all tools, read once per request."""
    kept: dict[str, Any] = request.__dict__
    if "_mcp_entries" not in kept:
        kept["_mcp_entries"] = entries()
    found: list[Entry] = kept["_mcp_entries"]
    return found
