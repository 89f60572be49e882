"""The admin's pages of the records: only read, filtered, searched and taken away as files."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

from django.contrib import admin
from django.contrib.admin import SimpleListFilter
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin import usage
from mcp_bridge.admin.exports import export
from mcp_bridge.calls.outcomes import Outcome
from mcp_bridge.models import ToolCallRecord, ToolSetting
from mcp_bridge.protocol import REVISIONS

# How many of its latest calls a tool's page shows.
RECENT: Final = 10


class ToolFilter(SimpleListFilter):
    """By tool, of those that there are or were."""

    title = _("tool")
    parameter_name = "tool"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, name) for name in ToolSetting.objects.values_list("name", flat=True)]

    def queryset(self, request: Any, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset if self.value() is None else queryset.filter(tool=self.value())


class EraFilter(SimpleListFilter):
    """By what the revision belongs to."""

    title = _("era")
    parameter_name = "era"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, Any]]:
        return [("modern", _("modern")), ("legacy", _("legacy"))]

    def queryset(self, request: Any, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() is None:
            return queryset
        modern = self.value() == "modern"
        chosen = [version for version, each in REVISIONS.items() if each.modern is modern]
        return queryset.filter(revision__in=chosen)


class RevisionFilter(SimpleListFilter):
    """By revision, of those that are served."""

    title = _("revision")
    parameter_name = "revision"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, Any]]:
        return [(version, version) for version in REVISIONS]

    def queryset(self, request: Any, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset if self.value() is None else queryset.filter(revision=self.value())


class ToolCallRecordAdmin(admin.ModelAdmin):
    """What was called and refused; nothing here can be changed."""

    list_display = [
        "started_at",
        "tool",
        "caller",
        "shown_outcome",
        "error_code",
        "shown_duration",
        "client",
        "revision",
    ]
    list_filter = [
        "outcome",
        "error_code",
        EraFilter,
        RevisionFilter,
        ("user", admin.RelatedOnlyFieldListFilter),
        ToolFilter,
    ]
    list_per_page = 50
    date_hierarchy = "started_at"
    ordering = ["-started_at", "-pk"]
    search_fields = [
        "tool",
        "user_name",
        "credential",
        "client_name",
        "reference",
        "remote_address",
    ]
    search_help_text = _("By tool, user, credential, client, reference and address.")
    # Counting every record for it would take long where there are many.
    show_full_result_count = False
    actions = None
    fieldsets = [
        (None, {"fields": ["started_at", "tool", "outcome", "error_code", "reference"]}),
        (
            _("Who called"),
            {
                "fields": [
                    "user",
                    "user_name",
                    "credential",
                    "client_name",
                    "client_version",
                    "revision",
                    "remote_address",
                ]
            },
        ),
        (
            _("What was sent"),
            {"fields": ["duration_ms", "arguments_bytes", "result_bytes", "shown_arguments"]},
        ),
    ]

    class Media:
        css = {"all": ["mcp_bridge/admin.css", "mcp_bridge/model-admin.css"]}

    def get_urls(self) -> list[URLPattern]:
        files = [
            path(
                f"export/{kind}/",
                self.admin_site.admin_view(partial(export, self, kind=kind)),
                name=f"mcp_bridge_toolcallrecord_{kind}",
            )
            for kind in ("csv", "json")
        ]
        return [*files, *super().get_urls()]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context: dict[str, Any] = {"title": _("Calls")}
        if self.has_view_permission(request):
            context |= {"chart": usage.chart(), **usage.rankings()}
            context["filters"] = request.GET.urlencode()
        return super().changelist_view(request, {**context, **(extra_context or {})})

    @admin.display(description=_("user"), ordering="user_name")
    def caller(self, record: ToolCallRecord) -> str:
        return record.user_name or "—"

    @admin.display(description=_("client"), ordering="client_name")
    def client(self, record: ToolCallRecord) -> str:
        return f"{record.client_name} {record.client_version}".strip()

    @admin.display(description=_("outcome"), ordering="outcome")
    def shown_outcome(self, record: ToolCallRecord) -> str:
        name = Outcome(record.outcome).label
        return format_html('<span class="mcp-outcome-{}">{}</span>', record.outcome, name)

    @admin.display(description=_("duration"), ordering="duration_ms")
    def shown_duration(self, record: ToolCallRecord) -> str:
        return "" if record.duration_ms is None else f"{record.duration_ms:.1f} ms"

    @admin.display(description=_("arguments"))
    def shown_arguments(self, record: ToolCallRecord) -> str:
        if not record.arguments:
            return "—"
        shown = json.dumps(json.loads(record.arguments), indent=2, ensure_ascii=False)
        return format_html('<div class="mcp-admin"><pre>{}</pre></div>', shown)


def recent(model_admin: Any, request: HttpRequest, tool: str) -> list[ToolCallRecord] | None:
    """The latest calls of a tool, or None for somebody who may not see them here."""
    site = model_admin.admin_site
    may = request.user.has_perm("mcp_bridge.view_toolcallrecord")
    if not may or not site.is_registered(ToolCallRecord):
        return None
    return list(ToolCallRecord.objects.filter(tool=tool)[:RECENT])
