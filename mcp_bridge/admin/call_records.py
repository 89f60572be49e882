"""The admin of the records: they are only read, filtered, searched, charted and exported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta
from functools import partialmethod
from typing import Any, Final, NamedTuple

from django.contrib import admin
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import Avg, Count, Max, Model, Q, QuerySet
from django.db.models.functions import TruncDate
from django.http import (
    HttpRequest,
    HttpResponseBadRequest,
    HttpResponseBase,
    HttpResponseNotAllowed,
    StreamingHttpResponse,
)
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin import exports
from mcp_bridge.admin.base import BridgeAdmin, Choices, Context
from mcp_bridge.audit.rows import flush
from mcp_bridge.calls.outcomes import Outcome
from mcp_bridge.models import ToolCallRecord, ToolSetting
from mcp_bridge.protocol import REVISIONS

# The number of days in the chart, and of tools in each of the tables.
DAYS: Final = 14
MOST: Final = 5
WEEK: Final = timedelta(days=7)
RAN: Final = ~Q(outcome=Outcome.REFUSED)
FAILED: Final = Q(outcome__in=[Outcome.FAILED, Outcome.UNKNOWN])
# The widths of a day and of a bar, in the units of the chart's view box.
_STEP: Final = 40
_BAR: Final = 12
Records = QuerySet[ToolCallRecord]


class Day(NamedTuple):
    """One day of the chart."""

    day: date
    calls: int = 0
    failures: int = 0
    refusals: int = 0


class Bar(NamedTuple):
    """One bar of the chart: the kind of what it counts, and its rectangle."""

    kind: str
    x: int
    y: int
    height: int
    width: int = _BAR - 1


class Chart:
    """The last days; ``most`` is the highest count, ``width`` and ``height`` the view box."""

    width: Final = DAYS * _STEP
    height: Final = 100

    def __init__(self) -> None:
        begin = timezone.now() - timedelta(days=DAYS)
        rows = ToolCallRecord.objects.filter(started_at__gte=begin).order_by()
        counted = rows.annotate(day=TruncDate("started_at")).values_list("day")
        counted = counted.annotate(
            calls=Count("pk", filter=RAN),
            failures=Count("pk", filter=FAILED),
            refusals=Count("pk", filter=~RAN),
        )
        found = {row[0]: Day(*row) for row in counted}
        today = timezone.localdate()
        days = [today - timedelta(days=ago) for ago in reversed(range(DAYS))]
        self.days = [found.get(day, Day(day)) for day in days]
        self.most = max(1, *(max(day[1:]) for day in self.days))

    @property
    def columns(self) -> Iterator[tuple[Day, int, list[Bar]]]:
        """Yield each day with the middle of its column, and its bars."""
        for left, day in zip(range(0, self.width, _STEP), self.days, strict=True):
            bars = []
            for x, (kind, count) in enumerate(zip(day._fields[1:], day[1:], strict=True)):
                # One of many is seen as well.
                height = max(2, round(count * self.height / self.most)) if count else 0
                bars.append(Bar(kind, left + 2 + x * _BAR, self.height - height, height))
            yield day, left + _STEP // 2, bars


def rankings() -> dict[str, list[dict[str, Any]]]:
    """Return the "slowest" and the most "failing" tools of the last week; one query."""
    rows = ToolCallRecord.objects.filter(RAN, started_at__gte=timezone.now() - WEEK).order_by()
    counted = rows.values("tool").annotate(
        calls=Count("pk"),
        failures=Count("pk", filter=FAILED),
        mean=Avg("duration_ms"),
        longest=Max("duration_ms"),
    )
    tools: list[dict[str, Any]] = [dict(row) for row in counted.order_by("tool")]
    timed = [row for row in tools if row["mean"] is not None]
    failing = [row for row in tools if row["failures"]]
    return {
        "slowest": sorted(timed, key=lambda row: -row["mean"])[:MOST],
        "failing": sorted(failing, key=lambda row: -row["failures"])[:MOST],
    }


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

    pages = {"csv": "export/csv/", "json": "export/json/"}
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

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> Records:
        flush()
        return super().get_queryset(request)

    def list_context(self, request: HttpRequest) -> Context:
        flush()
        return {"chart": Chart(), **rankings(), "filters": request.GET.urlencode()}

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
        rows = records.values_list(*exports.FIELDS).iterator()
        media, write = exports.KINDS[kind]
        headers = {
            "Content-Disposition": f'attachment; filename="calls.{kind}"',
            "Cache-Control": "private, no-store",
        }
        return StreamingHttpResponse(
            write(rows), content_type=f"{media}; charset=utf-8", headers=headers
        )

    csv_view = partialmethod(export, kind="csv")
    json_view = partialmethod(export, kind="json")

    @admin.display(description=_("user"), ordering="user_name")
    def caller(self, record: ToolCallRecord) -> str:
        return record.user_name or "—"

    @admin.display(description=_("client"), ordering="client_name")
    def client(self, record: ToolCallRecord) -> str:
        return f"{record.client_name} {record.client_version}".strip()

    @admin.display(description=_("outcome"), ordering="outcome")
    def shown_outcome(self, record: ToolCallRecord) -> str:
        name = record.get_outcome_display()
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
