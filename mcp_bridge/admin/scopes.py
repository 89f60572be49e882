"""OAuth scopes in the admin: their descriptions, and the tools that require them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from mcp_bridge.access.scopes import supported_scopes
from mcp_bridge.admin.base import BridgeAdmin, Context
from mcp_bridge.admin.entries import Entry, entries_for
from mcp_bridge.models import Scope
from mcp_bridge.protocol.text import cut


@admin.register(Scope)
class ScopeAdmin(BridgeAdmin):
    """The descriptions of scopes; those without a row are described in SCOPES."""

    list_display = ["name", "description", "needed_by"]
    search_fields = ["name", "description"]
    # Deletion is confirmed on a page that lists the tools that still require the scope.
    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return ModelAdmin.has_add_permission(self, request)

    def get_fields(self, request: HttpRequest, obj: Scope | None = None) -> tuple[str, ...]:
        return ("name", "description") + ("needed_by",) * (obj is not None)

    def get_readonly_fields(self, request: HttpRequest, obj: Scope | None = None) -> list[str]:
        # The name cannot change: tools and credentials refer to it.
        return [] if obj is None else ["name", "needed_by"]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found, tools = super().get_changelist_instance(request), tools_by_scope(request)
        for scope in found.result_list:
            scope.tools = tools.get(scope.name, [])
        return found

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        scope: Any = super().get_object(request, *args, **kwargs)
        if scope is not None:
            scope.tools = tools_by_scope(request).get(scope.name, [])
        return scope

    def list_context(self, request: HttpRequest) -> Context:
        named = Scope.objects.values_list("name", flat=True)
        words, needed = supported_scopes(), tools_by_scope(request)
        others = (words.keys() | needed.keys()) - set(named)
        shown = [(name, words.get(name, name), listed(needed.get(name, []))) for name in others]
        return {"others": sorted(shown)}

    @admin.display(description=_("required by"))
    def needed_by(self, scope: Any) -> str:
        return listed(scope.tools)


def tools_by_scope(request: HttpRequest) -> dict[str, list[Entry]]:
    """Return all tools, including disabled ones, by each scope that they require."""
    found: dict[str, list[Entry]] = {}
    for entry in entries_for(request):
        for scope in entry.scopes:
            found.setdefault(scope, []).append(entry)
    return found


def listed(tools: list[Entry]) -> str:
    """Return the names of tools on one line."""
    return cut(", ".join(entry.setting.name for entry in tools), 400)
