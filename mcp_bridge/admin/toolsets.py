"""Toolsets in the admin: the filter of the list of tools, and how long each list is for a model."""

from __future__ import annotations

from typing import NamedTuple

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.base import Choices
from mcp_bridge.admin.entries import where
from mcp_bridge.conf import conf
from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.definitions import is_too_long
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.toolsets import members


class ToolsetFilter(SimpleListFilter):
    """Filter the tools by a toolset that they are in; there is no filter without toolsets."""

    title = _("toolset")
    parameter_name = "toolset"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [(name, name) for name in conf.toolsets]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[ToolSetting]
    ) -> QuerySet[ToolSetting]:
        options = conf.toolsets.get(self.value() or "")
        if options is None:
            return queryset
        return where(
            request, queryset, lambda entry: any(members(options, filter(None, [entry.tool])))
        )


class Length(NamedTuple):
    """How many tools a list has that are on, and about how many tokens of a model they take."""

    toolset: str | None
    tools: int
    tokens: int

    @property
    def is_too_long(self) -> bool:
        return is_too_long(self.tools, self.tokens)


def lengths() -> list[Length]:
    """Return the length of each list that clients can get."""
    lists = registry.snapshot.lists()
    return [Length(name, len(part), part.tokens()) for name, part in lists.items()]
