"""The approval queue in the admin: the calls that wait, and the page where a person decides."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.text import Truncator
from django.utils.timesince import timesince
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.base import BridgeAdmin, Choices
from mcp_bridge.audit.redaction import storable
from mcp_bridge.conf import conf
from mcp_bridge.models import PendingCall
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.registry.registry import registry

Calls = QuerySet[PendingCall]
Status = PendingCall.Status
# Characters of a reason, since a model reads it.
MAX_REASON: Final = 2_000


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
            "obstacle": obstacle_to(pending, request) if waits else "",
            "waits": waits,
            "may_decide": may_decide,
        }
        return self.page(request, "pending_call", context)

    def decide(self, request: HttpRequest, pending: PendingCall) -> tuple[str, int]:
        """Write the posted decision, and return the message to the administrator and its level."""
        reason = storable(request.POST.get("reason", ""), MAX_REASON).strip()
        if "_refuse" in request.POST:
            obstacle = "" if reason else gettext("Say why it is refused: the caller reads it.")
            status, logged = Status.REFUSED, f"Refused: {reason}"
            text = gettext("The call is refused, which its caller is told.")
        elif "_approve" in request.POST:
            obstacle = obstacle_to(pending, request)
            status, logged = Status.APPROVED, "Approved."
            text = gettext("The call is approved: it runs when its caller repeats it.")
        else:
            return gettext("Nothing was decided: approve the call, or refuse it."), messages.ERROR
        if obstacle:
            return obstacle, messages.ERROR
        with self.decision(request) as using:
            values = {"status": status, "reason": reason, "decided_by": request.user}
            if pending.decide(using=using, **values):
                self.log_change(request, pending, logged)
                return text, messages.SUCCESS
        text = gettext("Nothing was changed: somebody has decided in the meantime.")
        return text, messages.WARNING


def obstacle_to(pending: PendingCall, request: HttpRequest) -> str:
    """Return why the user of a request cannot approve a call; empty where the user can."""
    if conf.FOUR_EYES and pending.user_id == request.user.pk:
        return gettext("You cannot approve it: it is your own call, and another person has to.")
    tool = registry.snapshot.tools.get(pending.tool)
    if tool is None:
        return gettext("It cannot be approved: nobody can call the tool at present.")
    if fingerprint(canonical_definition(tool)) != pending.fingerprint:
        return gettext(
            "It cannot be approved: the tool has another definition than when it was called. The "
            "caller has to call it again."
        )
    return ""
