"""The approval queue in the admin: the calls that wait, and the page where a person decides."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.text import Truncator
from django.utils.timesince import timesince
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.access.decisions import approve, obstacle_to, refuse
from mcp_bridge.admin.base import BridgeAdmin, Choices
from mcp_bridge.models import PendingCall
from mcp_bridge.registry.registry import registry

Calls = QuerySet[PendingCall]
Status = PendingCall.Status


class StatusFilter(SimpleListFilter):
    """Filter by status; calls that wait, unless something else is chosen."""

    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [*Status.choices, ("all", _("All"))]

    def value(self) -> str:
        return super().value() or Status.WAITING

    def queryset(self, request: HttpRequest, queryset: Calls) -> Calls:
        wanted = self.value()
        return queryset if wanted == "all" else queryset.filter(status=wanted)

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        # Without Django's first choice, which means that there is no filter.
        return islice(super().choices(changelist), 1, None)


@admin.register(PendingCall)
class PendingCallAdmin(BridgeAdmin):
    """The calls that wait for a person's confirmation: read them, approve or refuse them."""

    list_display = ["tool", "user", "short_arguments", "age", "status", "decided_by"]
    list_filter = [StatusFilter]
    list_select_related = ["user", "decided_by"]
    search_fields = ["tool", "arguments"]
    date_hierarchy = "asked_at"

    @admin.display(description=_("arguments"))
    def short_arguments(self, row: PendingCall) -> str:
        return Truncator(" ".join(row.arguments.split())).chars(80)

    @admin.display(description=_("age"), ordering="-asked_at")
    def age(self, row: PendingCall) -> str:
        return timesince(row.asked_at)

    def change_view(
        self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Show one call with all its arguments; a POST decides on it."""
        pending: PendingCall = self.viewed(request, object_id)
        may_decide = self.has_change_permission(request, pending)
        if request.method == "POST":
            if not may_decide:
                raise PermissionDenied
            self.message_user(request, *self.decide(request, pending))
            return self.back_to(pending)
        waits = pending.status == Status.WAITING
        context = {
            "title": gettext("Pending call"),
            "original": pending,
            "tool": registry.snapshot.tools.get(pending.tool) if waits else None,
            "obstacle": obstacle_to(pending, cast("User", request.user)) if waits else "",
            "waits": waits,
            "may_decide": may_decide,
        }
        return self.page(request, "pending_call", context)

    def decide(self, request: HttpRequest, pending: PendingCall) -> tuple[str, int]:
        """Write the posted decision, and return the message to the administrator and its level."""
        user = cast("User", request.user)
        if "_refuse" in request.POST:
            return refuse(pending, user, request.POST.get("reason", ""))
        if "_approve" in request.POST:
            return approve(pending, user)
        return gettext("Nothing was decided: approve the call, or refuse it."), messages.ERROR
