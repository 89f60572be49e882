"""The front page, "MCP" in the admin: pending items, failures, the last day, clients."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, cast

from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.db.models import Max, Q, QuerySet, Sum
from django.http import HttpRequest
from django.template import RequestContext
from django.utils import timezone

from mcp_bridge.admin.base import Context, may
from mcp_bridge.admin.entries import entries_for, numbers
from mcp_bridge.admin.pending_calls import shown_call
from mcp_bridge.admin.records import FAILED, THROTTLED, Usage, local_now
from mcp_bridge.conf import conf
from mcp_bridge.confirmation.decisions import approvable, set_aside
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.records.rows import flush
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus
from mcp_bridge.server.connecting import TOKEN, Connection, endpoint_url

# The most of each kind that are shown; the lists have all.
MOST: Final = 5
HOURS: Final = 24


def calls_for(request: HttpRequest) -> QuerySet[PendingCall]:
    """Return the pending calls that the user may decide on."""
    return PendingCall.objects.filter(approvable(cast("User", request.user)))


def count_calls(request: HttpRequest) -> int:
    """Return the number of calls pending for the user, counted once per request."""
    kept = vars(request)
    if "_mcp_waiting" not in kept:
        kept["_mcp_waiting"] = calls_for(request).count()
    return int(kept["_mcp_waiting"])


def waiting(context: RequestContext) -> dict[str, int]:
    """Return the number of calls and tools pending for the user, in this admin site."""
    request: HttpRequest = context["request"]
    site, found = _site(request), {"calls": 0, "tools": 0}
    if may(site, request, PendingCall, "change"):
        found["calls"] = count_calls(request)
    if may(site, request, ToolSetting, "change"):
        # Reading the snapshot updates the statuses.
        _snapshot, waits = registry.snapshot, (ToolStatus.NEW, ToolStatus.CHANGED)
        statuses = registry.statuses.items()
        found["tools"] = sum(each in waits for _key, each in statuses)
    return found


def _site(request: HttpRequest) -> AdminSite:
    """Return the admin site of the request; only its view is certain to name it."""
    view = request.resolver_match.func if request.resolver_match else None
    site: AdminSite = getattr(getattr(view, "model_admin", view), "admin_site", admin.site)
    return site


def front_page(context: RequestContext) -> Context:
    """
    Return the content of the front page for the user, in this admin site.

    Parts whose model is not in the site, or not viewable by the user, are omitted.
    """
    request: HttpRequest = context["request"]
    site, menu = _site(request), context["available_apps"]
    sections = [each for each in menu if each["app_label"].startswith("mcp_bridge")]
    # The page for issuing tokens, if the site has one.
    rows = (row for section in sections for row in section["models"])
    token_url = next((row["add_url"] or "" for row in rows if row["object_name"] == "Token"), "")
    secret = "" if conf.AUTHORIZATION_SERVERS and not token_url else TOKEN
    sees_tools, sees_calls = (may(site, request, each) for each in (ToolSetting, ToolCallRecord))
    found = entries_for(request) if sees_tools else []
    front: Context = {
        "sections": sections,
        "token_url": token_url,
        "connection": Connection(endpoint_url(request), secret),
        "may_decide": may(site, request, PendingCall, "change"),
        "may_approve": may(site, request, ToolSetting, "change"),
        "sees_tools": sees_tools,
        "waiting": [entry for entry in found if entry.waits],
        "tools": numbers(found),
        "sees_calls": sees_calls,
        "has_records": conf.AUDIT is not None,
    }
    if may(site, request, PendingCall):
        # The newest pending calls that the user may decide on.
        calls = calls_for(request).select_related("user")[:MOST]
        held = [shown_call(call, cast("User", request.user)) for call in calls]
        front |= {
            "held": held,
            "held_count": len(held) if len(held) < MOST else count_calls(request),
            "aside": PendingCall.objects.filter(set_aside()).count(),
        }
    if sees_calls and conf.AUDIT is not None:
        flush()
        begin = local_now() - timedelta(hours=HOURS - 1)
        usage = Usage(ToolCallRecord.objects.all(), begin, None)
        front |= {
            "usage": usage,
            "failing": _failing(usage),
            # The names that clients send.
            "clients": _latest("client_name", "client_version"),
            "throttled": _latest("user_name", "tool", wanted=THROTTLED),
        }
    return front


def _failing(usage: Usage) -> list[tuple[Any, ToolCallRecord | None]]:
    """Return the tools with the highest failure rates, each with its last failure."""
    failing = [use for use in usage.tools if use.failures]
    failing.sort(key=lambda use: (-use.failures / use.calls, -use.failures, use.tool))
    # Found by time; a record deleted meanwhile is not shown.
    last = {use.tool: use.last_failure for use in failing[:MOST] if use.last_failure}
    rows = ToolCallRecord.objects.filter(FAILED, tool__in=last, started_at__in=last.values())
    records = {row.tool: row for row in rows if row.started_at == last[row.tool]}
    return [(use, records.get(use.tool)) for use in failing[:MOST]]


def _latest(*fields: str, wanted: Q | None = None) -> Any:
    """Return the distinct values of calls in the last day, with counts, latest first."""
    since = timezone.now() - timedelta(hours=HOURS)
    rows = ToolCallRecord.objects.filter(wanted or Q(), started_at__gte=since).order_by()
    counted = rows.values(*fields).annotate(calls=Sum("times"), last=Max("started_at"))
    return counted.order_by("-last")[:MOST]
