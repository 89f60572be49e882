"""The front page, "MCP" in the admin: what waits, what fails, the last day, who connects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, Final, cast

from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.db.models import Max, Model, Q, QuerySet, Sum
from django.http import HttpRequest
from django.utils import timezone

from mcp_bridge.admin.base import PagesAdmin, may
from mcp_bridge.admin.entries import entries_for, numbers
from mcp_bridge.admin.pending_calls import ShownCall
from mcp_bridge.admin.records import (
    FAILED,
    THROTTLED,
    ToolUse,
    Usage,
    local_now,
    shown_error,
)
from mcp_bridge.conf import conf
from mcp_bridge.confirmation.decisions import approvable, set_aside
from mcp_bridge.features import Tool
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.records.rows import flush
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import ToolStatus
from mcp_bridge.server.connecting import TOKEN, Connection, endpoint_url

# The most of each kind that is shown; the lists have all.
MOST: Final = 5
HOURS: Final = 24


def calls_for(request: HttpRequest) -> QuerySet[PendingCall]:
    """Return the calls that wait for a decision that the user may make."""
    return PendingCall.objects.filter(approvable(cast("User", request.user)))


def count(model: type[Model], request: HttpRequest) -> int:
    """Return how many calls, or tools, wait for the user, counted once a request."""
    kept: dict[type[Model], int] = request.__dict__.setdefault("_mcp_waiting", {})
    if model not in kept and model is PendingCall:
        kept[model] = calls_for(request).count()
    elif model not in kept:
        # The statuses are as of the snapshot read last.
        _snapshot = registry.snapshot
        waits = (ToolStatus.NEW, ToolStatus.CHANGED)
        statuses = registry.statuses.items()
        kept[model] = sum(kind == Tool.kind and each in waits for (kind, _), each in statuses)
    return kept[model]


def counts_in(site: AdminSite, request: HttpRequest) -> dict[str, int]:
    """Return how much waits for the user in an admin site, by the name of its model."""
    return {
        str(model._meta.model_name): count(model, request)
        for model in (PendingCall, ToolSetting)
        if may(site, request, model, "change")
    }


class FrontPage:
    """
    What the front page of an admin site shows to a user.

    A part is None where the site has no pages of its model, or the user may not view them.
    """

    held: list[ShownCall] | None = None
    usage: Usage | None = None

    def __init__(
        self, site: AdminSite, request: HttpRequest, menu: Sequence[dict[str, Any]]
    ) -> None:
        self.request = request
        # The rows of the site's menu for all models of MCP, as one section of it.
        self.models = own_rows(site, menu)
        section = {"name": "MCP", "app_label": "mcp_bridge", "app_url": request.path}
        self.sections = [{**section, "models": self.models}]
        self.may_decide = may(site, request, PendingCall, "change")
        self.may_approve = may(site, request, ToolSetting, "change")
        self.sees_calls = may(site, request, ToolCallRecord)
        self.sees_tools = may(site, request, ToolSetting)
        self.has_records = conf.AUDIT is not None
        if may(site, request, PendingCall):
            # The newest of the calls that wait, those that the user may decide on.
            calls = calls_for(request).select_related("user")[:MOST]
            self.held = [ShownCall(call, cast("User", request.user)) for call in calls]
        if self.sees_calls:
            flush()
        if self.sees_calls and self.has_records:
            begin = local_now() - timedelta(hours=HOURS - 1)
            self.usage = Usage(ToolCallRecord.objects.all(), begin, None)
        found = entries_for(request) if self.sees_tools else []
        # The tools that wait for approval, and how many tools have each status.
        self.waiting = [entry for entry in found if entry.waits]
        self.tools = numbers(found)

    @property
    def token_url(self) -> str:
        """The address where the user issues a token, if there is one."""
        labels = {row["model"]._meta.label: row for row in self.models}
        return str(labels.get("mcp_bridge_tokens.Token", {}).get("add_url") or "")

    @property
    def held_count(self) -> int:
        """How many calls wait in all."""
        held = self.held or []
        return len(held) if len(held) < MOST else count(PendingCall, self.request)

    @cached_property
    def aside(self) -> int:
        """How many calls can no longer be approved, which the queue has on a page of their own."""
        return PendingCall.objects.filter(set_aside()).count()

    @cached_property
    def failing(self) -> list[tuple[ToolUse, ToolCallRecord | None, str]]:
        """The tools of the last day with the highest rates of failure, each with its last error."""
        failing = [use for use in (self.usage.tools if self.usage else ()) if use.failures]
        failing.sort(key=lambda use: (-use.failures / use.calls, -use.failures, use.tool))
        # Found by their times: the error of one that was deleted meanwhile is not shown.
        last = {use.tool: use.last_failure for use in failing[:MOST] if use.last_failure}
        rows = ToolCallRecord.objects.filter(FAILED, tool__in=last, started_at__in=last.values())
        records = {row.tool: row for row in rows if row.started_at == last[row.tool]}
        return [
            (use, record, shown_error(record) if record else "")
            for use in failing[:MOST]
            for record in [records.get(use.tool)]
        ]

    @cached_property
    def clients(self) -> list[dict[str, Any]]:
        """The clients of the last day, as they call themselves, the last one first."""
        return self._counted("client_name", "client_version", wanted=Q())

    @cached_property
    def throttled(self) -> list[dict[str, Any]]:
        """Who has called which tool too often in the last day, the last one first."""
        return self._counted("user_name", "tool", wanted=THROTTLED)

    def _counted(self, *fields: str, wanted: Q) -> list[dict[str, Any]]:
        since = timezone.now() - timedelta(hours=HOURS)
        rows = ToolCallRecord.objects.filter(wanted, started_at__gte=since).order_by()
        counted = rows.values(*fields).annotate(calls=Sum("times"), last=Max("started_at"))
        return [dict(row) for row in counted.order_by("-last")[:MOST]]

    @cached_property
    def connection(self) -> Connection:
        """How clients reach the site: with a token, or with a login where clients have one."""
        secret = "" if conf.AUTHORIZATION_SERVERS and not self.token_url else TOKEN
        return Connection(endpoint_url(self.request), secret)


def own_rows(site: AdminSite, menu: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of an admin site's menu that are of models of MCP, in whichever app."""
    rows = [row for section in menu for row in section["models"]]
    found = [row for row in rows if isinstance(site.get_model_admin(row["model"]), PagesAdmin)]
    return sorted(found, key=lambda row: str(row["name"]))
