"""The list of tools: its rows with their audiences, its search, and its filter by status."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.audience import Audiences
from mcp_bridge.admin.base import Choices
from mcp_bridge.admin.entries import Entry, entries
from mcp_bridge.admin.usage import with_usage
from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.tool_status import ToolStatus


class ToolChangeList(ChangeList):
    """A list whose rows have their ``entry`` and ``audience``, which is None where it is gone."""

    def get_queryset(
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> QuerySet[ToolSetting]:
        rows = super().get_queryset(request, *args, **kwargs)
        # Long texts that no column shows.
        return with_usage(rows.defer("approved", "note"))

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows: list[Any] = list(self.result_list)
        for row in rows:
            row.entry = Entry.of(row)
        audiences = Audiences(row.entry.rule for row in rows if row.entry.rule)
        for row in rows:
            row.audience = audiences.of(row.entry.rule) if row.entry.rule else None


class StatusFilter(SimpleListFilter):
    """Filter by status, which the code and the settings decide together."""

    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [("waiting", _("waits for approval")), *ToolStatus.choices]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[ToolSetting]
    ) -> QuerySet[ToolSetting]:
        wanted = self.value()
        if wanted is None:
            return queryset
        chosen = [
            entry.setting.pk
            for entry in map(Entry.of, queryset.defer("approved", "note"))
            if (entry.waits if wanted == "waiting" else entry.status == wanted)
        ]
        return queryset.filter(pk__in=chosen)


def search(queryset: QuerySet[ToolSetting], term: str) -> QuerySet[ToolSetting]:
    """Return the tools whose name, title and description, as served, hold all words of a text."""
    words = term.casefold().split()
    if not words:
        return queryset
    matching = []
    for entry in map(Entry.of, queryset):
        text = "\n".join((entry.setting.name, entry.title, entry.description)).casefold()
        if all(word in text for word in words):
            matching.append(entry.setting.pk)
    return queryset.filter(pk__in=matching)


def summary() -> dict[str, str]:
    """Return the sentences above the list: how many tools there are, and how many wait."""
    counted = Counter(entry.status for entry in entries())
    waiting = counted[ToolStatus.NEW] + counted[ToolStatus.CHANGED]
    total = sum(counted.values()) - counted[ToolStatus.GONE]
    shown = ngettext("%d tool is in the code", "%d tools are in the code", total) % total
    words = ngettext("%d tool waits for approval.", "%d tools wait for approval.", waiting)
    off = gettext("%(off)d off, %(gone)d no longer in the code") % {
        "off": counted[ToolStatus.DISABLED],
        "gone": counted[ToolStatus.GONE],
    }
    return {"waiting": words % waiting if waiting else "", "counted": f"{shown}; {off}."}
