"""OAuth scopes in the admin: their descriptions, and the tools that require them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.access.scopes import missing_scopes, supported_scopes
from mcp_bridge.admin.base import BridgeAdmin, Context, column
from mcp_bridge.admin.entries import entries_for
from mcp_bridge.conf import conf
from mcp_bridge.models import Scope, ToolSetting


@admin.register(Scope)
class ScopeAdmin(BridgeAdmin):
    """All scopes, and the rows that describe them in place of SCOPES."""

    pages = {"changelist": ""}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return ModelAdmin.has_add_permission(self, request)

    def get_fields(self, request: HttpRequest, obj: Scope | None = None) -> tuple[str, ...]:
        return ("name", "description") + ("needed_by",) * (obj is not None)

    def get_readonly_fields(self, request: HttpRequest, obj: Scope | None = None) -> list[str]:
        # The name cannot change: tools and credentials refer to it.
        return [] if obj is None else ["name", "needed_by"]

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        scope: Any = super().get_object(request, *args, **kwargs)
        if scope is not None:
            scope.tools = [each for each in entries_for(request) if scope.name in each.scopes]
        return scope

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        context = {
            "title": gettext("Scopes"),
            "scopes": scopes_for(request),
            "may_add": self.has_add_permission(request),
            "sees_tools": self.can_link(request, ToolSetting),
        }
        return self.page(request, "scopes", context)

    needed_by = column("needed_by", _("required by"))


def scopes_for(request: HttpRequest) -> list[Context]:
    """
    Return the scopes of the settings, the admin and the tools, by name.

    ``needed`` counts the tools that require a scope, enabled or not, and ``allows`` those for which
    a client needs no other scope.
    """
    rows, words = {row.name: row for row in Scope.objects.all()}, supported_scopes()
    tools = [(each, each.tool) for each in entries_for(request) if each.tool]
    origins = {
        gettext("settings"): {*conf.SCOPES, *conf.DEFAULT_SCOPES},
        gettext("admin"): {*rows, *(n for entry, _ in tools for n in entry.setting.scopes.split())},
        gettext("the tool's code"): {name for _, tool in tools for name in tool.access.scopes},
    }
    required = [entry.scopes for entry, _tool in tools if entry.scopes]
    return [
        {
            "name": name,
            "row": rows.get(name),
            "description": words.get(name, name),
            "origins": [origin for origin, names in origins.items() if name in names],
            "needed": sum(name in each for each in required),
            "allows": sum(not missing_scopes(each, {"scope": name}) for each in required),
        }
        for name in sorted(set().union(*origins.values()))
    ]
