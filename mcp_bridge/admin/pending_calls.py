"""The approval queue in the admin: the calls that wait, and the page where a person decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final, cast

from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.base import BridgeAdmin, Choices, Context
from mcp_bridge.admin.entries import hints
from mcp_bridge.admin.records import one_line
from mcp_bridge.confirmation.decisions import (
    approvable,
    approve,
    end_of,
    obstacle_to,
    refuse,
    set_aside,
)
from mcp_bridge.features import Tool
from mcp_bridge.models import PendingCall
from mcp_bridge.registry.registry import registry

Calls = QuerySet[PendingCall]
Status = PendingCall.Status
# The characters of a call that the front page shows: what is longer is read on the call's page.
_SHORT: Final = 2_000


class StatusFilter(SimpleListFilter):
    """Filter by status; calls that wait, unless something else is chosen."""

    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        waiting, *others = Status.choices
        return [waiting, ("aside", _("can no longer be approved")), *others, ("all", _("All"))]

    def value(self) -> str:
        return super().value() or Status.WAITING

    def queryset(self, request: HttpRequest, queryset: Calls) -> Calls:
        wanted = self.value()
        conditions = {
            "all": Q(),
            "aside": set_aside(),
            Status.WAITING: approvable(),
            Status.APPROVED: ~PendingCall.over() & Q(status=Status.APPROVED),
        }
        return queryset.filter(conditions.get(wanted, Q(status=wanted)))

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        # Without Django's first choice, which means that there is no filter.
        return islice(super().choices(changelist), 1, None)


@dataclass(frozen=True)
class ShownCall:
    """A call as a page shows it to a user who may decide on it."""

    pending: PendingCall
    user: User

    @property
    def tool(self) -> Tool | None:
        return registry.snapshot.tools.get(self.pending.tool)

    @property
    def hints(self) -> list[str]:
        """Each of the tool's hints as a sentence."""
        return [str(full) for _short, full in hints(self.tool)] if self.tool else []

    @property
    def waits(self) -> bool:
        return self.pending.status == Status.WAITING

    @property
    def obstacle(self) -> str:
        """Why the user cannot approve it, where it waits."""
        return obstacle_to(self.pending, self.user) if self.waits else ""

    @property
    def is_short(self) -> bool:
        """Whether the front page shows all that a person has to read."""
        description = str(self.tool.description) if self.tool else ""
        return len(description) + len(self.pending.arguments) <= _SHORT


@admin.register(PendingCall)
class PendingCallAdmin(BridgeAdmin):
    """The calls that wait for a person's confirmation: read them, approve or refuse them."""

    list_display = ["tool", "user", "short_arguments", "age", "state", "decided_by"]
    list_filter = [StatusFilter]
    list_select_related = ["user", "decided_by"]
    search_fields = ["tool", "arguments"]
    date_hierarchy = "asked_at"

    def list_context(self, request: HttpRequest) -> Context:
        counts = self.get_queryset(request).aggregate(
            waiting=Count("pk", filter=approvable()), aside=Count("pk", filter=set_aside())
        )
        return {
            **counts,
            "first": self.following(request) if counts["waiting"] else None,
            "may_decide": self.has_change_permission(request),
        }

    @admin.display(description=_("arguments"))
    def short_arguments(self, row: PendingCall) -> str:
        return one_line(row.arguments, 80)

    @admin.display(description=_("age"), ordering="-asked_at")
    def age(self, row: PendingCall) -> str:
        return timesince(row.asked_at)

    @admin.display(description=_("status"), ordering="status")
    def state(self, row: PendingCall) -> str | SafeString:
        more = ""
        if row.status == Status.WAITING:
            more = obstacle_to(row)
        elif row.status == Status.APPROVED and row.is_over:
            more = gettext("It was not repeated in time: when it is repeated, it waits anew.")
        elif row.status == Status.APPROVED:
            more = gettext("It has to be repeated by %(time)s.") % {"time": end_of(row)}
        text = row.get_status_display()
        return format_html('{}<div class="mcp-path">{}</div>', text, more) if more else text

    def change_view(
        self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Show one call with all its arguments; a POST decides on it, and leads to the next one."""
        pending: PendingCall = self.viewed(request, object_id)
        may_decide = self.has_change_permission(request, pending)
        following = self.following(request, pending) if may_decide else None
        if request.method == "POST":
            if not may_decide:
                raise PermissionDenied
            is_written = self.decide(request, pending)
            return self.back_to((is_written and following) or pending)
        context = {
            "title": gettext("Pending call"),
            "original": pending,
            "shown": ShownCall(pending, cast("User", request.user)),
            "may_decide": may_decide,
            "next": following,
        }
        return self.page(request, "pending_call", context)

    def decide(self, request: HttpRequest, pending: PendingCall) -> bool:
        """Write the posted decision on a call, and say so; return whether it was written."""
        user, reason = cast("User", request.user), request.POST.get("reason", "")
        if "_refuse" in request.POST:
            text, level = refuse(pending, user, reason)
        elif "_approve" in request.POST:
            text, level = approve(pending, user)
        else:
            text = gettext("Nothing was decided: approve the call, or refuse it.")
            self.message_user(request, text, messages.ERROR)
            return False
        # In quotation marks: the admin begins each message with a capital letter.
        name = gettext("“%(name)s”") % {"name": pending}
        self.message_user(request, f"{name}: {text}", level)
        return level == messages.SUCCESS

    def following(
        self, request: HttpRequest, pending: PendingCall | None = None
    ) -> PendingCall | None:
        """Return the call that the user can decide on after this one, from the oldest on."""
        if not self.has_change_permission(request):
            return None
        calls = self.get_queryset(request).filter(approvable(cast("User", request.user)))
        parts = [calls.order_by("asked_at", "pk")]
        if pending is not None:
            later = Q(asked_at__gt=pending.asked_at)
            later |= Q(asked_at=pending.asked_at, pk__gt=pending.pk)
            calls = parts[0].exclude(pk=pending.pk)
            parts = [calls.filter(later), calls.exclude(later)]
        rows = chain.from_iterable(part.iterator(chunk_size=25) for part in parts)
        return next((row for row in rows if self.has_change_permission(request, row)), None)
