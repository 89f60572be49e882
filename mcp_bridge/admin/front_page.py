"""The front page, "MCP" in the admin: what waits, what fails, the last day, who connects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, Final, NamedTuple

from django.contrib.admin import AdminSite
from django.db.models import Max, Model, Q, Sum
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from mcp_bridge.admin.base import PagesAdmin
from mcp_bridge.admin.call_filters import ToolUse, Usage, local_now
from mcp_bridge.admin.entries import Entry, entries, numbers
from mcp_bridge.admin.records import FAILED, THROTTLED, shown_error
from mcp_bridge.admin.waiting import calls_for, calls_set_aside, count
from mcp_bridge.conf import conf
from mcp_bridge.features import Tool
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.records.rows import flush
from mcp_bridge.registry.registry import registry
from mcp_bridge.server.connecting import TOKEN, Connection, endpoint_url

# The most of each kind that is shown; the lists have all.
MOST: Final = 5
HOURS: Final = 24
# What is longer is read, and decided, on the call's page.
_SHORT: Final = 2_000


class Held(NamedTuple):
    """A call that waits, and its tool."""

    call: PendingCall
    tool: Tool | None

    @property
    def is_short(self) -> bool:
        """Whether all that a person has to read stands here."""
        description = str(self.tool.description) if self.tool else ""
        return len(description) + len(self.call.arguments) <= _SHORT


class FrontPage:
    """
    What the front page of an admin site shows to a user.

    A part is None where the site has no pages of its model, or the user may not view them.
    """

    def __init__(
        self, site: AdminSite, request: HttpRequest, menu: Sequence[dict[str, Any]]
    ) -> None:
        self.site, self.request = site, request
        self._menu = menu
        self.may_decide = self._may(PendingCall, "change")
        self.may_approve = self._may(ToolSetting, "change")
        self.sees_calls = self._may(ToolCallRecord, "view")
        self.sees_tools = self._may(ToolSetting, "view")
        self.has_records = conf.AUDIT is not None
        if self.sees_calls:
            flush()

    def _may(self, model: type[Model], action: str) -> bool:
        if not self.site.is_registered(model):
            return False
        model_admin = self.site.get_model_admin(model)
        if action == "change":
            return model_admin.has_change_permission(self.request)
        return model_admin.has_view_or_change_permission(self.request)

    @cached_property
    def models(self) -> list[dict[str, Any]]:
        """The rows of the site's menu for all models of MCP, in whichever app they are."""
        return own_rows(self.site, self._menu)

    @property
    def sections(self) -> list[dict[str, Any]]:
        """The same as one section of Django's menu."""
        app_url = self.request.path
        return [
            {"name": "MCP", "app_label": "mcp_bridge", "app_url": app_url, "models": self.models}
        ]

    @property
    def token_url(self) -> str:
        """The address where the user issues a token, if there is one."""
        found = [
            row for row in self.models if row["model"]._meta.label == "mcp_bridge_tokens.Token"
        ]
        return str(found[0]["add_url"] or "") if found else ""

    @cached_property
    def held(self) -> list[Held] | None:
        """The newest of the calls that wait, those that the user may decide on."""
        if not self._may(PendingCall, "view"):
            return None
        # Another thread may have read newer settings between the two.
        tools = registry.snapshot.tools
        calls = calls_for(self.request).select_related("user")[:MOST]
        return [Held(call, tools.get(call.tool)) for call in calls]

    @cached_property
    def held_count(self) -> int:
        """How many calls wait in all."""
        held = self.held or []
        return len(held) if len(held) < MOST else count(PendingCall, self.request)

    @cached_property
    def aside(self) -> int:
        """How many calls can no longer be approved, which the queue has on a page of their own."""
        return calls_set_aside().count()

    @cached_property
    def _entries(self) -> list[Entry]:
        return entries() if self.sees_tools else []

    @cached_property
    def waiting(self) -> list[Entry]:
        """The tools that wait for approval."""
        return [entry for entry in self._entries if entry.waits]

    @cached_property
    def tools(self) -> dict[str, int]:
        """How many tools have each status."""
        return numbers(self._entries)

    @cached_property
    def usage(self) -> Usage | None:
        if not self.sees_calls or not self.has_records:
            return None
        begin = local_now() - timedelta(hours=HOURS - 1)
        return Usage(ToolCallRecord.objects.all(), begin, None, self._calls)

    def _calls(self, parameters: dict[str, Any]) -> str:
        """Return the address of the list of calls with some filters."""
        address = reverse("admin:mcp_bridge_toolcallrecord_changelist", current_app=self.site.name)
        wanted = {name: value for name, value in parameters.items() if value is not None}
        return f"{address}?{urlencode(wanted)}"

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
