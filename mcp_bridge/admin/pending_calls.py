"""The approval queue in the admin: what waits for a person, and the page where one decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db import router, transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import Truncator
from django.utils.timesince import timesince
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.audit.redaction import storable
from mcp_bridge.conf import conf
from mcp_bridge.features.tools import Tool
from mcp_bridge.models import PendingCall
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint
from mcp_bridge.registry.registry import registry

Status = PendingCall.Status
# A model reads it.
MAX_REASON: Final = 2_000


class StatusFilter(admin.SimpleListFilter):
    """By status; what waits, unless something else is chosen."""

    title = _("status")
    parameter_name = "status"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, Any]]:
        return [*Status.choices, ("all", _("All"))]

    def queryset(self, request: Any, queryset: QuerySet[Any]) -> QuerySet[Any]:
        wanted = self.value() or Status.WAITING
        return queryset if wanted == "all" else queryset.filter(status=wanted)

    def choices(self, changelist: Any) -> Iterator[Any]:
        # Without the choice that stands for no filter, which there is not.
        for value, title in self.lookup_choices:
            yield {
                "selected": str(value) == (self.value() or Status.WAITING),
                "query_string": changelist.get_query_string({self.parameter_name: value}),
                "display": title,
            }


class PendingCallAdmin(admin.ModelAdmin):
    """The calls that wait for a person's approval: read them, approve or refuse them."""

    list_display = ["tool", "user", "short_arguments", "age", "status", "decided_by"]
    list_filter = [StatusFilter]
    list_select_related = ["user", "decided_by"]
    search_fields = ["tool", "arguments"]
    date_hierarchy = "asked_at"

    class Media:
        css = {"all": ["mcp_bridge/admin.css", "mcp_bridge/model-admin.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        # Rows come from calls.
        return False

    @admin.display(description=_("arguments"))
    def short_arguments(self, row: PendingCall) -> str:
        return Truncator(" ".join(row.arguments.split())).chars(80)

    @admin.display(description=_("age"), ordering="-asked_at")
    def age(self, row: PendingCall) -> str:
        return timesince(row.asked_at)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        title = {"title": _("Pending calls")}
        return super().changelist_view(request, {**title, **(extra_context or {})})

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """One call with all its arguments; a POST decides on it."""
        pending = self.get_object(request, unquote(object_id))
        if not self.has_view_or_change_permission(request, pending):
            raise PermissionDenied
        if pending is None:
            raise Http404
        may_decide = self.has_change_permission(request, pending)
        if request.method == "POST":
            if not may_decide:
                raise PermissionDenied
            self._decide(request, pending)
            address = reverse(
                "admin:mcp_bridge_pendingcall_change",
                args=[pending.pk],
                current_app=self.admin_site.name,
            )
            return HttpResponseRedirect(address)
        request.current_app = self.admin_site.name
        waits = pending.status == Status.WAITING
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Pending call"),
            "opts": self.opts,
            "media": self.media,
            "original": pending,
            "tool": registry.snapshot.get(pending.tool) if waits else None,
            "obstacle": _obstacle(pending, request.user) if waits else "",
            "waits": waits,
            "may_decide": may_decide,
            "has_delete_permission": self.has_delete_permission(request, pending),
        }
        return TemplateResponse(request, "mcp_bridge/admin/pending_call.html", context)

    def _decide(self, request: HttpRequest, pending: PendingCall) -> None:
        refused = "_refuse" in request.POST
        reason = storable(request.POST.get("reason", ""), MAX_REASON).strip()
        obstacle = gettext("Say why it is refused: the caller reads it.")
        if not refused:
            obstacle = _obstacle(pending, request.user)
        if not refused and "_approve" not in request.POST:
            obstacle = gettext("Nothing was decided: approve the call, or refuse it.")
        if obstacle and not (refused and reason):
            self.message_user(request, obstacle, messages.ERROR)
            return
        status = Status.REFUSED if refused else Status.APPROVED
        said = f"Refused: {reason}" if refused else "Approved."
        using = router.db_for_write(PendingCall)
        with transaction.atomic(using=using):
            decided = pending.decide(
                using=using, status=status, reason=reason, decided_by=request.user
            )
            if decided:
                self.log_change(request, pending, said)
        if not decided:
            text = gettext("Nothing was changed: somebody has decided in the meantime.")
            self.message_user(request, text, messages.WARNING)
            return
        text = gettext("The call is refused, which its caller is told.")
        if not refused:
            text = gettext("The call is approved: it runs when its caller repeats it.")
        self.message_user(request, text, messages.SUCCESS)


def waiting(user: Any) -> str:
    """How many calls wait, in words; empty where none does or the user may not see them."""
    if not user.has_perm("mcp_bridge.view_pendingcall"):
        return ""
    count = PendingCall.objects.filter(status=Status.WAITING).count()
    words = ngettext("%d call waits for approval.", "%d calls wait for approval.", count)
    return words % count if count else ""


def _obstacle(pending: PendingCall, user: Any) -> str:
    """Why the user cannot approve the call; empty where it can be approved."""
    if conf.FOUR_EYES and pending.user_id == user.pk:
        return gettext("You cannot approve it: it is your own call, and another person has to.")
    tool: Tool | None = registry.snapshot.get(pending.tool)
    if tool is None:
        return gettext("It cannot be approved: nobody can call the tool at present.")
    if fingerprint(canonical_definition(tool)) != pending.fingerprint:
        return gettext(
            "It cannot be approved: the tool has another definition than when it was called. The "
            "caller has to call it again."
        )
    return ""
