"""The list of tools as a whole: its filters, and what stands above it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.audience import may_view_users
from mcp_bridge.admin.base import BridgeAdmin, Choices, Context
from mcp_bridge.admin.entries import Entry, entries_for, numbers, where
from mcp_bridge.admin.waiting import count
from mcp_bridge.conf import DOCUMENTATION, conf
from mcp_bridge.models import PendingCall, ToolSetting
from mcp_bridge.registry.definitions import is_too_long
from mcp_bridge.registry.listing import members
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus

Tools = QuerySet[ToolSetting]


class EntryFilter(SimpleListFilter):
    """A filter by what the code and the settings say of a tool together."""

    def holds(self, entry: Entry, wanted: str) -> bool:
        """Return whether an entry has the wanted value."""
        raise NotImplementedError

    def queryset(self, request: HttpRequest, queryset: Tools) -> Tools:
        wanted = self.value()
        if not wanted:
            return queryset
        return where(request, queryset, lambda entry: self.holds(entry, wanted))


class StatusFilter(EntryFilter):
    """Filter by status."""

    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [("waiting", _("waits for approval")), *ToolStatus.choices]

    def holds(self, entry: Entry, wanted: str) -> bool:
        if wanted == ToolStatus.SERVED:
            # What is served unapproved too, as the front page counts it.
            return entry.is_served
        return entry.waits if wanted == "waiting" else entry.status == wanted


class ScopeFilter(EntryFilter):
    """Filter by a scope that tools need, from the code or the settings."""

    title = _("scope")
    parameter_name = "scope"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        names = {name for entry in entries_for(request) for name in entry.scopes}
        return [(name, name) for name in sorted(names)]

    def holds(self, entry: Entry, wanted: str) -> bool:
        return wanted in entry.scopes


class ToolsetFilter(EntryFilter):
    """Filter by toolset; without toolsets there is no such filter."""

    title = _("toolset")
    parameter_name = "toolset"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [(name, name) for name in conf.toolsets]

    def holds(self, entry: Entry, wanted: str) -> bool:
        options = conf.toolsets.get(wanted)
        return options is None or any(members(options, filter(None, [entry.tool])))


class GroupFilter(SimpleListFilter):
    """Choose what the list is grouped by. It leaves out no tool."""

    title = _("group")
    parameter_name = "group"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [("app", _("by app")), ("prefix", _("by the beginning of the name"))]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        # Without the counts of Django's own, which say how many each choice would leave.
        for value, text in [(None, _("As it fits")), *self.lookup_choices]:
            yield {
                "selected": self.value() == value,
                "query_string": changelist.get_query_string({self.parameter_name: value}),
                "display": text,
            }

    def queryset(self, request: HttpRequest, queryset: Tools) -> Tools:
        return queryset


FILTERS: Final[list[Any]] = [
    StatusFilter,
    GroupFilter,
    "enabled",
    "restricted",
    ScopeFilter,
    ToolsetFilter,
]


class Length(NamedTuple):
    """How many tools a list has that are on, and about how many tokens of a model they take."""

    toolset: str | None
    tools: int
    tokens: int

    @property
    def is_too_long(self) -> bool:
        return is_too_long(self.tools, self.tokens)


def summary(model_admin: BridgeAdmin, request: HttpRequest) -> Context:
    """Return what stands above the list: numbers of tools, and the length of each toolset."""
    sees_calls = model_admin.can_link(request, PendingCall)
    return numbers(entries_for(request)) | {
        "may_change": model_admin.has_change_permission(request),
        "may_view_users": may_view_users(request),
        "pending": count(PendingCall, request) if sees_calls else 0,
        "lengths": [
            Length(name, len(part), part.tokens())
            for name, part in registry.snapshot.lists().items()
        ],
        "toolsets_page": f"{DOCUMENTATION}toolsets.md",
    }
