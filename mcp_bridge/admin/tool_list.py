"""The list of tools: its filters, the forms of its rows, and its groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from django import forms
from django.apps import apps
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.utils import quote
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.db.models import Case, Count, OuterRef, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.approvals import definitions
from mcp_bridge.admin.base import BridgeAdmin, Choices, Context, may_view_users
from mcp_bridge.admin.entries import Entry, entries_for, numbers
from mcp_bridge.admin.front_page import count_calls
from mcp_bridge.admin.records import FAILED, RAN, WEEK
from mcp_bridge.conf import DOCUMENTATION, conf
from mcp_bridge.features import Feature
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.registry.definitions import is_too_long
from mcp_bridge.registry.listing import members
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus

Tools = QuerySet[ToolSetting]


def where(request: HttpRequest, tools: Tools, is_wanted: Callable[[Entry], bool]) -> Tools:
    """Return the tools whose entries match."""
    keys = [entry.setting.pk for entry in entries_for(request) if is_wanted(entry)]
    return tools.filter(pk__in=keys)


class EntryFilter(SimpleListFilter):
    """A filter by a property of the tool's code and settings together."""

    def holds(self, entry: Entry, wanted: str) -> bool:
        """Return whether an entry has the selected value."""
        raise NotImplementedError

    def queryset(self, request: HttpRequest, queryset: Tools) -> Tools:
        wanted = self.value()
        if not wanted:
            return queryset
        return where(request, queryset, lambda entry: self.holds(entry, wanted))


class StatusFilter(EntryFilter):
    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [("waiting", _("pending approval")), *ToolStatus.choices]

    def holds(self, entry: Entry, wanted: str) -> bool:
        if wanted == ToolStatus.SERVED:
            # Includes tools served without approval, as the front page counts them.
            return entry.is_served
        return entry.waits if wanted == "waiting" else entry.status == wanted


class KindFilter(EntryFilter):
    """A filter by kind; hidden on a site with tools alone."""

    title = _("kind")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        kinds = {(each.setting.kind, each.setting.kind_name) for each in entries_for(request)}
        return sorted(kinds) if len(kinds) > 1 else []

    def holds(self, entry: Entry, wanted: str) -> bool:
        return entry.setting.kind == wanted


class ScopeFilter(EntryFilter):
    title = _("scope")
    parameter_name = "scope"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        names = {name for entry in entries_for(request) for name in entry.scopes}
        return [(name, name) for name in sorted(names)]

    def holds(self, entry: Entry, wanted: str) -> bool:
        return wanted in entry.scopes


class ToolsetFilter(EntryFilter):
    """A filter by toolset; hidden without toolsets."""

    title = _("toolset")
    parameter_name = "toolset"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [(name, name) for name in conf.toolsets]

    def holds(self, entry: Entry, wanted: str) -> bool:
        options = conf.toolsets.get(wanted)
        return options is None or any(members(options, filter(None, [entry.tool])))


class GroupFilter(SimpleListFilter):
    """A choice of the list's grouping; does not filter."""

    title = _("group")
    parameter_name = "group"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [("app", _("by app")), ("prefix", _("by prefix"))]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        # Replaces Django's first choice, "All".
        first, *others = super().choices(changelist)
        yield from ({**first, "display": _("Automatic")}, *others)

    def queryset(self, request: HttpRequest, queryset: Tools) -> Tools:
        return queryset


FILTERS: Final[list[Any]] = [
    *(StatusFilter, KindFilter, GroupFilter, "enabled", "restricted", ScopeFilter, ToolsetFilter)
]


def app_of(tool: Feature) -> str:
    """Return the name of the app in which a tool is defined, or else its source."""
    config = apps.get_containing_app_config(tool.function) if tool.function else None
    return str(config.verbose_name) if config else tool.source_alias


# Functions that return a tool's group, such as "articles" for articles_delete.
_GROUPINGS: Final[Mapping[str, Callable[[Feature], str]]] = {
    "app": app_of,
    "prefix": lambda tool: re.split("[._/-]", tool.name, maxsplit=1)[0],
}


class RowForm(forms.ModelForm):
    """One row of the list."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["enabled"]
        name = gettext("%(name)s is enabled") % {"name": self.instance}
        # The URL with which tools.js switches the tool at once.
        address = f"{quote(self.instance.pk)}/switch/"
        field.widget.attrs |= {"aria-label": name, "data-mcp-switch": address}
        if (entry := Entry.of(self.instance)).waits and not entry.is_served:
            # Off until it is approved, for which its status is a link.
            field.disabled, field.widget.check_test = True, lambda value: False
        # The column does not have space for it.
        field.help_text = ""
        # Also submits whether the list showed the tool as enabled.
        field.show_hidden_initial = True

    @cached_property
    def changed_data(self) -> list[str]:
        """The checkbox, if the user changed it and it was not changed by others meanwhile."""
        ticked = bool(self["enabled"].data)
        shown = self.data.get(self.add_initial_prefix("enabled"))
        is_changed = shown == str(not ticked) and self.initial.get("enabled") is not ticked
        return ["enabled"] if is_changed and not self.fields["enabled"].disabled else []


class RowGroup(NamedTuple):
    """Consecutive rows of the page; ``part`` is their slice for a template."""

    name: str
    size: int
    part: str


class ToolChangeList(ChangeList):
    """A list whose rows have a ``definition`` and are grouped."""

    # Each tool's group by the key of its row; empty without grouping.
    group_names: Mapping[Any, str] = {}

    def get_ordering(self, request: HttpRequest, queryset: Tools) -> list[Any]:
        """Order by group first, unless a column was selected for ordering."""
        ordering: list[Any] = list(super().get_ordering(request, queryset))
        chosen = _GROUPINGS.get(request.GET.get(GroupFilter.parameter_name, ""))
        if chosen is None and ORDER_VAR in request.GET:
            return ordering
        for group_of in [chosen] if chosen else _GROUPINGS.values():
            entries = [entry for entry in entries_for(request) if entry.tool]
            names = {entry.setting.pk: group_of(entry.tool) for entry in entries if entry.tool}
            # Groups of one tool each are only useful if requested.
            if 1 < len(set(names.values())) <= (len(names) if chosen else len(names) // 2):
                self.group_names = names
                rows = sorted((group.casefold(), group, key) for key, group in names.items())
                cases = [
                    When(pk__in=[key for *_, key in found], then=number)
                    for number, (_group, found) in enumerate(groupby(rows, itemgetter(1)))
                ]
                return [Case(*cases, default=Value(len(cases))).asc(), *ordering]
        return ordering

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Tools:
        """Annotate the rows with the last call, and the calls of the last week."""
        records = ToolCallRecord.objects.filter(RAN, tool=OuterRef("name"), kind=OuterRef("kind"))
        week = records.filter(started_at__gte=timezone.now() - WEEK).order_by().values("tool")
        failures = week.annotate(count=Count("pk", filter=FAILED))
        # Without long texts that are not columns; before super() orders by an annotation.
        self.root_queryset = self.model_admin.get_queryset(request).defer("approved", "note")
        self.root_queryset = self.root_queryset.annotate(
            last_call=Subquery(records.order_by("-started_at").values("started_at")[:1]),
            week_calls=Coalesce(Subquery(week.annotate(count=Count("pk")).values("count")), 0),
            week_failures=Coalesce(Subquery(failures.values("count")), 0),
        )
        rows: Tools = super().get_queryset(request, *args, **kwargs)
        return rows

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows: list[Any] = list(self.result_list)
        for row, definition in zip(rows, definitions(map(Entry.of, rows)), strict=True):
            row.definition = definition

    @property
    def row_groups(self) -> Iterator[RowGroup]:
        """The rows of this page by group; without groups, one unnamed group."""
        rows: list[Any] = list(self.result_list)
        without, begin = gettext("Without a tool") if self.group_names else "", 0
        for name, found in groupby(rows, key=lambda row: self.group_names.get(row.pk, without)):
            end = begin + len(list(found))
            yield RowGroup(name, end - begin, f"{begin}:{end}")
            begin = end


def summary(model_admin: BridgeAdmin, request: HttpRequest) -> Context:
    """Return the summary above the list: tool counts, and the size of each toolset."""
    sees_calls = model_admin.can_link(request, PendingCall)
    lengths = []
    for name, part in registry.snapshot.lists().items():
        size = {"tools": len(part.tools), "tokens": part.tokens()}
        lengths.append({"toolset": name, **size, "is_too_long": is_too_long(**size)})
    return numbers(entries_for(request)) | {
        "may_change": model_admin.has_change_permission(request),
        "may_view_users": may_view_users(request),
        "pending": count_calls(request) if sees_calls else 0,
        "lengths": lengths,
        "toolsets_page": f"{DOCUMENTATION}tools/toolsets/",
    }
