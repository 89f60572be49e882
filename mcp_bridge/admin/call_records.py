"""The admin of the records: they are only read, filtered, searched and exported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Final

from django.contrib import admin
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseBase,
    HttpResponseNotAllowed,
    StreamingHttpResponse,
)
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin import exports, usage
from mcp_bridge.admin.base import BridgeAdmin, Choices, Context, View
from mcp_bridge.calls.outcomes import Outcome
from mcp_bridge.models import ToolCallRecord, ToolSetting
from mcp_bridge.protocol import REVISIONS

# The number of records that an export reads at once.
_AT_ONCE: Final = 1000
Records = QuerySet[ToolCallRecord]


class RevisionFilter(SimpleListFilter):
    """Filter by revision, of those that are served."""

    title = _("revision")
    parameter_name = "revision"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [(version, version) for version in REVISIONS]

    def queryset(self, request: HttpRequest, queryset: Records) -> Records:
        wanted = self.value()
        return queryset if wanted is None else queryset.filter(**{self.parameter_name: wanted})


class ToolFilter(RevisionFilter):
    """Filter by tool, of those that there are or were."""

    title = _("tool")
    parameter_name = "tool"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [(name, name) for name in ToolSetting.objects.values_list("name", flat=True)]


class EraFilter(SimpleListFilter):
    """Filter by the era of the revision."""

    title = _("era")
    parameter_name = "era"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [("modern", _("modern")), ("legacy", _("legacy"))]

    def queryset(self, request: HttpRequest, queryset: Records) -> Records:
        wanted = self.value()
        if wanted is None:
            return queryset
        chosen = [name for name, each in REVISIONS.items() if each.modern is (wanted == "modern")]
        return queryset.filter(revision__in=chosen)


@admin.register(ToolCallRecord)
class ToolCallRecordAdmin(BridgeAdmin):
    """The calls and refusals; nothing here can be changed."""

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

    def further_pages(self) -> Mapping[str, tuple[str, View]]:
        return {
            kind: (f"export/{kind}/", partial(self.export, kind=kind)) for kind in ("csv", "json")
        }

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def changelist_view(
        self, request: HttpRequest, extra_context: Context | None = None
    ) -> HttpResponse:
        context: Context = {"title": _("Calls")}
        if self.has_view_permission(request):
            context |= {"chart": usage.chart(), **usage.rankings()}
            context["filters"] = request.GET.urlencode()
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def export(self, request: HttpRequest, kind: str) -> HttpResponseBase:
        """Send the records that the list shows with the same filters, all pages of them."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method != "GET":
            return HttpResponseNotAllowed(["GET"])
        try:
            records = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters:
            return HttpResponseBadRequest("These filters do not exist.")
        rows = records.values_list(*exports.FIELDS).iterator(chunk_size=_AT_ONCE)
        media, write = exports.KINDS[kind]
        return StreamingHttpResponse(
            write(rows),
            content_type=f"{media}; charset=utf-8",
            headers={
                "Content-Disposition": f'attachment; filename="calls.{kind}"',
                "Cache-Control": "private, no-store",
            },
        )

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
