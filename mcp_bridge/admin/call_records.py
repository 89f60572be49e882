"""The admin of the call log: list, filters, search, chart, and streamed exports."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial, partialmethod
from types import SimpleNamespace
from typing import Any, Final

from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ERROR_FLAG, ChangeList
from django.contrib.auth import get_user_model
from django.core.paginator import Page, Paginator
from django.db.models import Model
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseBase,
    HttpResponseNotAllowed,
    StreamingHttpResponse,
)
from django.utils.text import slugify
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.audience import refused_now
from mcp_bridge.admin.base import BridgeAdmin, Context, column
from mcp_bridge.admin.entries import Entry
from mcp_bridge.admin.records import FILTERS, Records, TimeFilter, Usage
from mcp_bridge.conf import conf
from mcp_bridge.confirmation.rendering import named_values, visible
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.models.outcomes import Outcome
from mcp_bridge.protocol.text import harmless
from mcp_bridge.records.rows import flush

Rows = Iterable[tuple[object, ...]]

# Limits of a search: each word is compared with every text of every record.
MAX_SEARCH: Final = 200
MAX_WORDS: Final = 12
# The most calls that a search finds, latest first: otherwise a common word would scan a large
# table three times, for the count, the rows and the chart.
MOST_FOUND: Final = 1_000
# URL parameters that are filters, in addition to those of list_filter.
_LOOKUPS: Final = {
    *("since", "until", "outcome__exact", "error_code__exact", "user__id__exact"),
    *("started_at__gte", "started_at__lt"),
}


# The fields of a record's page.
_CALL: Final = (
    *("shown_time", "called", "shown_outcome", "error_code", "model_read", "exception"),
    *("shown_pointers", "times", "reference"),
)
_CALLER: Final = (
    *("user_name", "credential", "client_name", "client_version", "revision"),
    "remote_address",
)
_SENT: Final = ("duration_ms", "arguments_bytes", "result_bytes")
_UPSTREAM: Final = ("upstream", "upstream_status")


# All columns, the longest one last.
FIELDS: Final = sorted(
    (field.attname for field in ToolCallRecord._meta.concrete_fields),
    key=lambda name: name == "arguments",
)
# The names of columns on the pages, if the table uses a protocol term.
_NAMES: Final[Mapping[str, str]] = {"credential": "signed_in_with", "revision": "protocol_version"}
COLUMNS: Final = [_NAMES.get(name, name) for name in FIELDS]
# Positions where spreadsheets may see a formula: at the beginning of a cell, also after a character
# that some of them treat as a separator, in any file.
_FORMULA: Final = re.compile(
    '(^|[;,|\t\r\n])(?=["\\s\ufeff]*[-=+@\uff1d\uff0b\uff0d\uff20])|^(?=[\t\r\n])'
)


class KeysFirst(Paginator):
    """A paginator that selects the keys of a page first: late pages would read all earlier rows."""

    object_list: Records

    def page(self, number: int | str) -> Page:
        page = super().page(number)
        rows: Any = page.object_list
        keys = list(rows.values_list("pk", flat=True))
        page.object_list = self.object_list.filter(pk__in=keys)
        return page


def as_csv(rows: Rows) -> Iterator[str]:
    """Yield rows of FIELDS as lines of CSV (RFC 4180), with formulas escaped."""
    writer = csv.writer(SimpleNamespace(write=str))
    # Excel reads UTF-8 only with a byte order mark.
    yield f"\ufeff{writer.writerow(COLUMNS)}"
    for row in rows:
        yield writer.writerow(map(_cell, row))


def as_json(rows: Rows) -> Iterator[str]:
    """Yield rows of FIELDS as a JSON array of objects; arguments are embedded as JSON."""
    before = "["
    for row in rows:
        record = dict(zip(COLUMNS, row, strict=True))
        record["arguments"] = json.loads(str(record["arguments"] or "null"))
        record["invalid_arguments"] = str(record["invalid_arguments"]).splitlines()
        yield f"{before}\n{visible(json.dumps(record, default=_text, ensure_ascii=False))}"
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def _cell(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    return _FORMULA.sub(r"\1'", harmless(_text(value)))


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


@admin.register(ToolCallRecord)
class ToolCallRecordAdmin(BridgeAdmin):
    """The read-only call log."""

    pages = {"csv": "export/csv/", "json": "export/json/"}
    list_display = [
        *("shown_time", "called", "caller", "shown_outcome", "arguments_in_a_line", "shown_error"),
        "shown_duration",
    ]
    list_filter = FILTERS
    list_per_page = 50
    paginator = KeysFirst
    list_select_related = ["pending_call"]
    search_fields = [
        *("tool", "user_name", "credential", "client_name", "reference", "remote_address"),
        *("error_text", "invalid_arguments", "arguments"),
    ]
    search_help_text = _("By tool, user, token, client, reference, address, error and arguments.")
    # Counting all records would be slow in a large table.
    show_full_result_count = False
    # So would counting the records of each tool and user.
    show_facets = admin.ShowFacets.NEVER
    actions = None

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    has_delete_permission = has_change_permission

    def get_fieldsets(self, request: HttpRequest, obj: ToolCallRecord | None = None) -> Any:
        is_internal = obj is not None and "\n" in obj.error_text
        return [
            (None, {"fields": [each for each in _CALL if is_internal or each != "exception"]}),
            (_("Who called"), {"fields": (self.user_field(request), *_CALLER)}),
            (_("Request"), {"fields": (*_SENT, *(_UPSTREAM if obj and obj.upstream else ()))}),
        ]

    def get_queryset(self, request: HttpRequest) -> Records:
        flush()
        return super().get_queryset(request)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        named = {getattr(each, "parameter_name", "") for each in self.list_filter}
        if lookup in named | _LOOKUPS:
            return True
        raise IncorrectLookupParameters(ValueError(lookup))

    def get_search_results(
        self, request: HttpRequest, queryset: Records, search_term: str
    ) -> tuple[Records, bool]:
        if len(search_term) > MAX_SEARCH or len(search_term.split()) > MAX_WORDS:
            text = gettext(
                "Search for at most %(words)d words of %(most)d characters. Showing all calls."
            )
            raise IncorrectLookupParameters(text % {"words": MAX_WORDS, "most": MAX_SEARCH})
        found, has_duplicates = super().get_search_results(request, queryset, search_term)
        if search_term.strip() and not getattr(request, "is_export", False):
            latest = found.order_by("-pk").values_list("pk", flat=True)[:MOST_FOUND]
            found = queryset.filter(pk__in=list(latest))
        return found, has_duplicates

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Return the list with its filters. Raises IncorrectLookupParameters with a text."""
        try:
            return super().get_changelist_instance(request)
        except IncorrectLookupParameters as error:
            # Errors of filters have another type, and a missing page an empty text.
            text = error.args[0] if error.args else ""
            if not isinstance(text, str):
                text = gettext("Invalid filter value. Showing all calls.")
            elif not text:
                text = gettext("Invalid page. Showing the first page.")
            if not getattr(request, "is_export", False):
                # Django responds with the unfiltered list.
                self.message_user(request, text, messages.ERROR)
            raise IncorrectLookupParameters(text) from error

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        # On a second error Django would show a page that blames the database.
        if ERROR_FLAG in request.GET:
            query: Any = request.GET.copy()
            del query[ERROR_FLAG]
            request.GET = query
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None) or {}
        if changelist := context.get("cl"):
            shown = _time_filter(changelist)
            is_cut = changelist.query and changelist.result_count >= MOST_FOUND
            context |= {
                "usage": Usage(changelist.queryset, shown.begin, shown.end),
                "is_recorded": conf.AUDIT is not None,
                "keeps_arguments": conf.audit.ARGUMENTS != "none",
                "found_at_most": MOST_FOUND if is_cut else None,
            }
        return response

    def render_change_form(
        self, request: HttpRequest, context: Context, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        record: ToolCallRecord = context["original"]

        rows = partial(self.linked, request)
        tools, users = rows(ToolSetting, name=record.tool, kind=record.kind), get_user_model()
        context |= {
            "tools": tools,
            "is_served": any(Entry.of(row).is_served for row in tools),
            "waited": rows(PendingCall, pk=record.pending_call_id),
            "users": rows(users, pk=record.user_id),
            "user_opts": users._meta,
            "values": named_values(record.arguments or "null"),
            "arguments": visible(record.arguments),
            "keeps_arguments": conf.audit.ARGUMENTS != "none",
        }
        if record.outcome == Outcome.REFUSED and self.can_link(request, ToolSetting):
            context |= refused_now(request, record, context["users"])
        # The tokens app is optional.
        if record.user_id and record.credential and apps.is_installed("mcp_bridge.tokens"):
            # Several tokens may match: the record has only the name.
            named = {"user_id": record.user_id, "name": record.credential}
            context["tokens"] = rows(apps.get_model("mcp_bridge_tokens", "Token"), **named)
        if apps.is_installed("mcp_bridge.tasks"):
            task: Any = apps.get_model("mcp_bridge_tasks", "McpTask")
            context["tasks"] = rows(task, record=record.pk)
        return super().render_change_form(request, context, *args, **kwargs)

    def export(self, request: HttpRequest, kind: str, media: str, write: Any) -> HttpResponseBase:
        """Export all records that match the list's filters."""
        if request.method != "GET":
            return HttpResponseNotAllowed(["GET"])
        request.__dict__["is_export"] = True
        try:
            changelist = self.get_changelist_instance(request)
        except IncorrectLookupParameters as error:
            return HttpResponseBadRequest(str(error), content_type="text/plain; charset=utf-8")
        rows = changelist.queryset.select_related(None).values_list(*FIELDS).iterator()
        headers = {
            "Content-Disposition": f'attachment; filename="{_file_name(changelist)}.{kind}"',
            "Cache-Control": "private, no-store",
        }
        return StreamingHttpResponse(
            write(rows), content_type=f"{media}; charset=utf-8", headers=headers
        )

    csv_view = partialmethod(export, kind="csv", media="text/csv", write=as_csv)
    json_view = partialmethod(export, kind="json", media="application/json", write=as_json)

    shown_time = column("time", _("time"), "started_at")
    called = column("called", _("tool"), "tool")
    caller = column("caller", _("user and client"), "user_name")
    shown_outcome = column("outcome", _("outcome"), "outcome")
    arguments_in_a_line = column("arguments", _("arguments"))
    shown_error = column("error", _("error"), "error_code")
    model_read = column("model_read", _("what the model read"))
    exception = column("exception", _("exception, not sent"))
    shown_pointers = column("pointers", _("invalid arguments"))
    shown_duration = column("duration", _("duration"), "duration_ms")


def _time_filter(changelist: ChangeList) -> TimeFilter:
    return next(each for each in changelist.filter_specs if isinstance(each, TimeFilter))


def _file_name(changelist: ChangeList) -> str:
    """Return a short ASCII name by the filters, such as "calls-refused-2026-11"."""
    shown, filters = _time_filter(changelist), changelist.get_filters_params()
    texts = [filters[name][-1] for name in filters if name not in ("when", *shown.own)]
    # A text may consist of other characters only.
    values = [slugify(text[:30]) or "filtered" for text in (*texts, changelist.query) if text]
    return "-".join(["calls", *values[:3], shown.days])
