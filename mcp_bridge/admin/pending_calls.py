"""The approval queue in the admin: pending calls, and the pages to decide on them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.crypto import salted_hmac
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.base import BridgeAdmin, Choices, Context, cell, column
from mcp_bridge.admin.entries import hints
from mcp_bridge.confirmation.decisions import approvable, approve, obstacle_to, refuse, set_aside
from mcp_bridge.confirmation.rendering import named_values
from mcp_bridge.models import PendingCall
from mcp_bridge.protocol.text import cut, printable
from mcp_bridge.registry.registry import registry

Calls = QuerySet[PendingCall]
Status = PendingCall.Status
# The limits of one page: calls, and characters of their arguments.
MOST_CALLS: Final = 25
MOST_CHARACTERS: Final = 100_000
# The most characters of a call on the front page; longer ones are shown on their own page.
_SHORT: Final = 2_000
# The most characters of a call's name; a longer value is not a part of it.
_MOST_NAME: Final = 80


class StatusFilter(SimpleListFilter):
    """A filter by status; shows pending calls by default."""

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
        # Without Django's "All" choice, which would disable the filter.
        return iter([*super().choices(changelist)][1:])


def name_of(pending: PendingCall) -> str:
    """Return what a call does, with its short values, such as "Delete an article: harbour"."""
    tool = registry.snapshot.by_label.get(pending.tool)
    title = str(tool and tool.title or pending.tool)
    values = json.loads(pending.arguments or "{}").values()
    texts = [str(each) for each in values if type(each) in (str, int)]
    short = ", ".join(text for text in texts if 0 < len(text) <= _MOST_NAME)
    return cut(printable(f"{title}: {short}" if short else title), _MOST_NAME)


def shown_call(pending: PendingCall, user: User) -> Context:
    """Return a call as a page shows it to a user who may decide on it."""
    tool = registry.snapshot.by_label.get(pending.tool)
    waits = pending.status == Status.WAITING
    description = str(tool.description) if tool else ""
    age = [timesince(pending.asked_at, depth=1)] if waits else []
    return {
        "pending": pending,
        "title": ", ".join([name_of(pending), str(pending.user or "—"), *age]),
        "values": named_values(pending.arguments),
        "tool": tool,
        "hints": [str(full) for _short, full in hints(tool)] if tool else [],
        "waits": waits,
        # The reason why the user cannot approve it.
        "obstacle": obstacle_to(pending, user) if waits else "",
        # Whether the front page can show all that must be read.
        "is_short": len(description) + len(pending.arguments) <= _SHORT,
        "proof": proof_of(pending, user),
    }


def proof_of(pending: PendingCall, user: User) -> str:
    """Return a token that proves that a page showed the call's arguments to the user."""
    shown = f"{user.pk} {pending.pk} {pending.tool} {pending.arguments}"
    proof = salted_hmac("mcp_bridge.admin.pending_calls", shown, algorithm="sha256")
    return f"{pending.pk}-{proof.hexdigest()}"


@admin.register(PendingCall)
class PendingCallAdmin(BridgeAdmin):
    """The calls that require confirmation: read, approve or refuse them."""

    pages = {"decide": "decide/"}
    list_display = ["call", "user", "age", "state", "decided_by"]
    list_filter = [StatusFilter]
    list_select_related = ["user", "decided_by"]
    search_fields = ["tool", "arguments"]
    date_hierarchy = "asked_at"
    actions = ["decide_on"]

    def list_context(self, request: HttpRequest) -> Context:
        counts = self.get_queryset(request).aggregate(
            waiting=Count("pk", filter=approvable()), aside=Count("pk", filter=set_aside())
        )
        return counts | {
            "first": self.following(request) if counts["waiting"] else None,
            "may_decide": self.has_change_permission(request),
        }

    call = column("call", _("call"), "tool")
    age = column("age", _("age"), "-asked_at")

    @admin.display(description=_("status"), ordering="status")
    def state(self, row: PendingCall) -> SafeString:
        obstacle = obstacle_to(row) if row.status == Status.WAITING else ""
        return cell("pending", {"row": row, "obstacle": obstacle})

    @admin.action(description=_("Review the selected calls"), permissions=["change"])
    def decide_on(self, request: HttpRequest, queryset: Calls) -> HttpResponse:
        keys = queryset.order_by("asked_at", "pk").values_list("pk", flat=True)[:MOST_CALLS]
        return HttpResponseRedirect(self.address("decide", query={"call": list(keys)}))

    def change_view(
        self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Show a call with its arguments; a POST decides on it and continues with the next."""
        pending: PendingCall = self.viewed(request, object_id)
        may_decide = self.has_change_permission(request, pending)
        if request.method == "POST":
            if not may_decide:
                raise PermissionDenied
            is_written = self.decide(request, [pending])
            return self.back_to((is_written and self.following(request, pending)) or pending)
        shown = shown_call(pending, cast("User", request.user))
        context = {
            "title": shown["title"],
            "shown": shown,
            "may_decide": may_decide,
            "next": self.following(request, pending) if may_decide else None,
        }
        return self.page(request, "pending_call", context)

    def decide_view(self, request: HttpRequest) -> HttpResponse:
        """
        Show several calls with their arguments; a POST decides on the selected ones.

        They are those that the URL names, or else all pending ones, up to the limits of a page.
        """
        if request.method == "POST":
            return self._decide_on_ticked(request)
        decidable = calls = self.decidable(request)
        if named := _keys(request.GET.getlist("call")):
            calls = self.get_queryset(request).filter(pk__in=named)
        shown: list[Context] = []
        others: list[Context] = []
        left = MOST_CHARACTERS
        for row in calls.select_related("user").order_by("asked_at", "pk")[:MOST_CALLS]:
            each, length = shown_call(row, cast("User", request.user)), len(row.arguments)
            may_decide = each["waits"] and self.has_change_permission(request, row)
            if may_decide and not each["obstacle"] and (not shown or length <= left):
                shown.append(each)
                left -= length
            else:
                others.append(each)
        context = {
            "title": gettext("Decide on several calls"),
            "calls": shown,
            "others": others,
            "rest": decidable.exclude(pk__in=[each["pending"].pk for each in shown]).count(),
            "may_decide": self.has_change_permission(request),
        }
        return self.page(request, "decide", context)

    def _decide_on_ticked(self, request: HttpRequest) -> HttpResponse:
        """Save the decision on the selected calls whose arguments were shown."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        user, ticked = cast("User", request.user), set(request.POST.getlist("call"))
        rows = self.get_queryset(request).filter(pk__in=_keys(ticked)).order_by("asked_at", "pk")
        calls = {proof_of(row, user): row for row in rows}
        chosen = [row for proof, row in calls.items() if proof in ticked]
        text = ""
        if not ticked:
            text = gettext("Nothing was decided: select the calls to approve or refuse.")
        elif not ticked <= calls.keys():
            text = gettext(
                "Nothing was decided: some of the selected calls were not shown to you, or no "
                "longer exist. Review the pending calls."
            )
        elif not all(self.has_change_permission(request, row) for row in chosen):
            raise PermissionDenied
        elif self.decide(request, chosen):
            page = "changelist" if self.following(request) is None else "decide"
            return HttpResponseRedirect(self.address(page))
        if text:
            self.message_user(request, text, messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())

    def decide(self, request: HttpRequest, calls: Iterable[PendingCall]) -> bool:
        """Save the posted decision on calls and report it; return whether any was saved."""
        user, reason = cast("User", request.user), request.POST.get("reason", "")
        if not {"_approve", "_refuse"} & request.POST.keys():
            text = gettext("Nothing was decided: approve or refuse the call.")
            self.message_user(request, text, messages.ERROR)
            return False
        # Calls with the same message are reported together.
        said: dict[tuple[str, int], list[str]] = {}
        for row in calls:
            is_no = "_refuse" in request.POST
            answer = refuse(row, user, reason) if is_no else approve(row, user)
            # Quoted, since the admin capitalises the first letter of messages.
            said.setdefault(answer, []).append(gettext("“%(name)s”") % {"name": name_of(row)})
        for (text, level), names in said.items():
            self.message_user(request, f"{', '.join(names)}: {text}", level)
        return any(level == messages.SUCCESS for _text, level in said)

    def decidable(self, request: HttpRequest) -> Calls:
        """Return the pending calls that the user may approve."""
        return self.get_queryset(request).filter(approvable(cast("User", request.user)))

    def following(
        self, request: HttpRequest, pending: PendingCall | None = None
    ) -> PendingCall | None:
        """Return the next call that the user may decide on, oldest first."""
        if not self.has_change_permission(request):
            return None
        calls = self.decidable(request).order_by("asked_at", "pk")
        if pending is None:
            return calls.first()
        later = Q(asked_at__gt=pending.asked_at) | Q(asked_at=pending.asked_at, pk__gt=pending.pk)
        return calls.filter(later).first() or calls.exclude(pk=pending.pk).first()


def _keys(posted: Iterable[str]) -> list[int]:
    """Return the primary keys at the beginning of texts; skips invalid ones."""
    found = [each.partition("-")[0] for each in posted]
    return [int(each) for each in found if each.isdecimal() and len(each) < 19]
