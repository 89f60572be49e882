"""The rows of the list of tools: their forms, their columns, and the groups that they stand in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from django import forms
from django.apps import apps
from django.contrib.admin.utils import quote
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.db.models import Case, Count, OuterRef, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.translation import gettext

from mcp_bridge.admin.audience import Audiences
from mcp_bridge.admin.entries import Entry
from mcp_bridge.admin.permissions import permission_titles
from mcp_bridge.admin.records import FAILED, RAN, WEEK
from mcp_bridge.admin.tool_list import GroupFilter, Tools
from mcp_bridge.features import Tool
from mcp_bridge.models import ToolCallRecord
from mcp_bridge.registry.registry import registry


def app_of(tool: Tool) -> str:
    """Return the name of the app in which a tool is defined, or else of its source."""
    config = apps.get_containing_app_config(tool.function) if tool.function else None
    return str(config.verbose_name) if config else tool.source_alias


# What the list is grouped by: the name of each tool's group, such as "articles" of articles_delete.
_GROUPINGS: Final[Mapping[str, Callable[[Tool], str]]] = {
    "app": app_of,
    "prefix": lambda tool: re.split("[._/-]", tool.name, maxsplit=1)[0],
}


class ToolSettingListForm(forms.ModelForm):
    """One row of the list."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["enabled"]
        name = gettext("%(name)s is enabled") % {"name": self.instance}
        # By its address, a script can switch at once (see tools.js).
        address = f"{quote(self.instance.pk)}/switch/"
        field.widget.attrs |= {"aria-label": name, "data-mcp-switch": address}
        # A column has no place for it.
        field.help_text = ""
        # Sent with the tick: whether the list has shown the tool as enabled.
        field.show_hidden_initial = True

    @cached_property
    def changed_data(self) -> list[str]:
        """The tick, if the person has changed it and nobody else has meanwhile."""
        ticked = bool(self["enabled"].data)
        shown = self.data.get(self.add_initial_prefix("enabled"))
        is_changed = shown == str(not ticked) and self.initial.get("enabled") is not ticked
        return ["enabled"] if is_changed else []


class RowGroup(NamedTuple):
    """Some rows of the page, one after another; ``part`` is which, as a slice in a template."""

    name: str
    size: int
    part: str


class ToolChangeList(ChangeList):
    """A list whose rows are complete, and stand in groups."""

    # The name of the group of each tool, by its name; empty where the list has no groups.
    group_names: Mapping[str, str] = {}

    def get_ordering(self, request: HttpRequest, queryset: Tools) -> list[Any]:
        """Order by group first, unless somebody has chosen a column to order by."""
        ordering: list[Any] = list(super().get_ordering(request, queryset))
        chosen = [_GROUPINGS.get(request.GET.get(GroupFilter.parameter_name, ""))]
        if chosen == [None] and ORDER_VAR in request.GET:
            return ordering
        tools = registry.discovered.tools.values()
        for group_of in filter(None, chosen if any(chosen) else _GROUPINGS.values()):
            names = {tool.name: group_of(tool) for tool in tools}
            # Groups of one tool each would only be in the way, unless somebody asks for them.
            most = len(names) if any(chosen) else len(names) // 2
            if 1 < len(set(names.values())) <= most:
                break
        else:
            return ordering
        self.group_names = names
        members: dict[str, list[str]] = {}
        for name, group in names.items():
            members.setdefault(group, []).append(name)
        cases = [
            When(name__in=members[group], then=Value(number))
            for number, group in enumerate(sorted(members, key=str.casefold))
        ]
        return [Case(*cases, default=Value(len(cases))).asc(), *ordering]

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Tools:
        """Add to the rows when each tool was last called, and how often in the last week."""
        records = ToolCallRecord.objects.filter(RAN, tool=OuterRef("name"))
        week = records.filter(started_at__gte=timezone.now() - WEEK).order_by().values("tool")
        failures = week.annotate(count=Count("pk", filter=FAILED))
        # Without the long texts that no column shows; before super() orders by one of them.
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
        complete(list(self.result_list))

    @property
    def row_groups(self) -> list[RowGroup]:
        """The rows of this page in their groups; without groups, one that has no name."""
        rows: list[Any] = list(self.result_list)
        if not self.group_names:
            return [RowGroup("", len(rows), ":")]
        groups, begin = [], 0
        for name, found in groupby(rows, key=lambda row: self.group_names.get(row.name, "")):
            size = len(list(found))
            part = f"{begin}:{begin + size}"
            groups.append(RowGroup(name or gettext("Without a tool at present"), size, part))
            begin += size
        return groups


def complete(rows: Sequence[Any]) -> None:
    """Give rows their ``entry``, ``audience`` (None where it is gone), and permissions."""
    for row in rows:
        row.entry = Entry.of(row)
    rules = [row.entry.rule for row in rows if row.entry.rule]
    audiences = Audiences(rules)
    titles = permission_titles(name for rule in rules for name in rule.permissions)
    for row in rows:
        rule = row.entry.rule
        row.audience = audiences.of(rule) if rule else None
        row.needed = ", ".join(titles[name] for name in rule.permissions) if rule else ""
