"""The list of tools in the admin: its columns, groups, filters and switches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.utils import display_for_value, quote
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.audience import Audience, may_view_users
from mcp_bridge.admin.base import BridgeAdmin, Choices, Context
from mcp_bridge.admin.effects import before_change, changed, messages_on
from mcp_bridge.admin.entries import Entry, entries_for, where
from mcp_bridge.admin.scopes import ScopeFilter, set_scopes
from mcp_bridge.admin.tool_rows import GroupFilter, ToolChangeList, Tools, complete
from mcp_bridge.admin.toolsets import ToolsetFilter, lengths
from mcp_bridge.admin.waiting import count
from mcp_bridge.admin.warnings import warning
from mcp_bridge.conf import DOCUMENTATION
from mcp_bridge.models import PendingCall, ToolSetting
from mcp_bridge.registry.tool_status import ToolStatus


class StatusFilter(SimpleListFilter):
    """Filter by status, which the code and the settings decide together."""

    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> Choices:
        return [("waiting", _("waits for approval")), *ToolStatus.choices]

    def queryset(self, request: HttpRequest, queryset: Tools) -> Tools:
        wanted = self.value()
        if wanted is None:
            return queryset
        if wanted == "waiting":
            return where(request, queryset, lambda entry: entry.waits)
        if wanted == ToolStatus.SERVED:
            # What is served unapproved too, as the front page counts it.
            return where(request, queryset, lambda entry: entry.is_served)
        return where(request, queryset, lambda entry: entry.status == wanted)


class ToolSettingListForm(forms.ModelForm):
    """One row of the list."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["enabled"]
        name = gettext("%(name)s is enabled") % {"name": self.instance}
        # By its address, a script can switch at once (see tools.js).
        address = f"{quote(self.instance.pk)}/switch/"
        field.widget.attrs |= {"aria-label": name, "data-mcp-switch": address}
        # A column has no place for it.
        field.help_text = ""
        # Sent with the tick: whether the list has shown the tool as enabled.
        field.show_hidden_initial = True

    @cached_property
    def changed_data(self) -> list[str]:
        """The tick, if the person has changed it and nobody else has meanwhile."""
        ticked = bool(self["enabled"].data)
        shown = self.data.get(self.add_initial_prefix("enabled"))
        is_changed = shown == str(not ticked) and self.initial.get("enabled") is not ticked
        return ["enabled"] if is_changed else []


class ToolListPages(BridgeAdmin):
    """The list of the tools, and the switch of each."""

    pages = {"switch": "<path:object_id>/switch/"}
    list_display = [
        "tool",
        "enabled",
        "status",
        "what_it_does",
        "who_can_use_it",
        "calls_in_a_week",
        "last_called",
        "tokens",
    ]
    list_editable = ["enabled"]
    list_filter = [StatusFilter, GroupFilter, "enabled", "restricted", ScopeFilter, ToolsetFilter]
    list_per_page = 100
    # The number of all tools stands above the list already.
    show_full_result_count = False
    # Searched as models read them, which the rows alone do not know.
    search_fields = ["name", "title", "description"]
    search_help_text = _("By name, title and description.")
    actions = ["switch_on", "switch_off", set_scopes]

    class Media:
        js = ["mcp_bridge/tools.js"]

    def get_queryset(self, request: HttpRequest) -> Tools:
        return super().get_queryset(request).prefetch_related("groups")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ToolChangeList]:
        return ToolChangeList

    def get_changelist_form(self, request: HttpRequest, **kwargs: Any) -> Any:
        return super().get_changelist_form(request, **{**kwargs, "form": ToolSettingListForm})

    def get_search_results(
        self, request: HttpRequest, queryset: Tools, search_term: str
    ) -> tuple[Tools, bool]:
        """Return the tools whose name, title and description, as served, hold all words."""
        words = search_term.casefold().split()

        def holds_all(entry: Entry) -> bool:
            text = f"{entry.setting.name}\n{entry.title}\n{entry.description}".casefold()
            return all(word in text for word in words)

        return where(request, queryset, holds_all) if words else queryset, False

    def list_context(self, request: HttpRequest) -> Context:
        counted = Counter(entry.status for entry in entries_for(request))
        context = super().list_context(request) | {
            "may_change": self.has_change_permission(request),
            "may_view_users": may_view_users(request),
            "waiting": counted[ToolStatus.NEW] + counted[ToolStatus.CHANGED],
            "total": counted.total() - counted[ToolStatus.GONE],
            "off": counted[ToolStatus.DISABLED],
            "gone": counted[ToolStatus.GONE],
            "lengths": lengths(),
            "toolsets_page": f"{DOCUMENTATION}toolsets.md",
        }
        if self.can_link(request, PendingCall):
            context["pending"] = count(PendingCall, request)
        return context

    def switch_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Switch a tool on or off as posted; return for a script what that has changed."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        viewed = self.viewed(request, object_id)
        on = request.POST.get("enabled") == "on"
        with self.decision(request):
            row: Any = ToolSetting.objects.select_for_update().get(pk=viewed.pk)
            if not self.has_change_permission(request, row):
                raise PermissionDenied
            before = [(before_change(row), "")]
            if row.enabled is not on:
                self._set_enabled(request, row, on=on)
        complete([row])
        ((text, _level),) = messages_on(before, self.get_queryset(request))
        return JsonResponse(
            {
                "message": text,
                "undo": gettext("Undo"),
                "cells": {
                    "status": self.status(row),
                    "who_can_use_it": self.who_can_use_it(row),
                },
            }
        )

    def _set_enabled(self, request: HttpRequest, row: ToolSetting, *, on: bool) -> None:
        row.enabled = on
        row.save(update_fields=["enabled"])
        label = str(row._meta.get_field("enabled").verbose_name)
        self.log_change(request, row, changed(label, not on, on))

    @admin.display(description=_("tool"), ordering="name")
    def tool(self, row: Any) -> SafeString | str:
        if not row.entry.title:
            return str(row.name)
        return format_html('{} <span class="mcp-name">{}</span>', row.entry.title, row.name)

    @admin.display(description=_("what it does"))
    def what_it_does(self, row: Any) -> SafeString:
        badges = format_html_join(
            " ", '<span class="mcp-badge mcp-badge-{}">{}</span>', row.entry.badges
        )
        # So that a long path can be broken.
        parts = row.entry.source.split("/")
        source = format_html_join(SafeString("/<wbr>"), "{}", ((part,) for part in parts))
        return format_html(
            '{}<div class="mcp-badges">{}</div><div class="mcp-path">{}</div>',
            row.entry.summary,
            badges,
            source,
        )

    @admin.display(description=_("status"))
    def status(self, row: Any) -> SafeString:
        kind = "served" if row.entry.is_served else row.entry.status.value
        return format_html('<span class="mcp-status-{}">{}</span>', kind, row.entry.label)

    @admin.display(description=_("who can use it"))
    def who_can_use_it(self, row: Any) -> SafeString:
        lines = [("mcp-path", row.needed), ("mcp-limits", "; ".join(row.entry.limits))]
        if row.entry.is_served:
            lines.append(("mcp-warning", warning(row.entry.shown, row.audience)))
        return format_html(
            "{}{}",
            who(row.entry, row.audience),
            format_html_join("", '<div class="{}">{}</div>', (line for line in lines if line[1])),
        )

    @admin.display(description=_("calls"), ordering="week_calls")
    def calls_in_a_week(self, row: Any) -> SafeString | str:
        calls: int = row.week_calls
        failures: int = row.week_failures
        words = ngettext("%(count)d call in 7 days", "%(count)d calls in 7 days", calls)
        words %= {"count": calls}
        if not failures:
            return words
        failed = ngettext("%(count)d failed", "%(count)d failed", failures)
        failed %= {"count": failures}
        return format_html('{}, <span class="mcp-warning">{}</span>', words, failed)

    @admin.display(
        description=_("last called"),
        ordering=F("last_call").asc(nulls_first=True),
    )
    def last_called(self, row: Any) -> SafeString | str:
        if row.last_call is None:
            return gettext("not called yet")
        # The word stands where the row is a card, which has no heading.
        label, time = gettext("Last called:"), display_for_value(row.last_call, "")
        return format_html('<span class="mcp-label">{} </span>{}', label, time)

    @admin.display(description=_("tokens"))
    def tokens(self, row: Any) -> int:
        return row.entry.tokens  # type: ignore[no-any-return]

    @admin.action(description=_("Switch on the selected tools"), permissions=["change"])
    def switch_on(self, request: HttpRequest, queryset: Tools) -> None:
        self._switch(request, queryset, on=True)

    @admin.action(description=_("Switch off the selected tools"), permissions=["change"])
    def switch_off(self, request: HttpRequest, queryset: Tools) -> None:
        self._switch(request, queryset, on=False)

    def _switch(self, request: HttpRequest, queryset: Tools, *, on: bool) -> None:
        chosen = [row for row in queryset if self.has_change_permission(request, row)]
        switched = [row for row in chosen if row.enabled is not on]
        before = [(before_change(row), "") for row in switched]
        for row in switched:
            self._set_enabled(request, row, on=on)
        number, rest = len(switched), len(chosen) - len(switched)
        if on:
            text = ngettext(
                "%(count)d tool is switched on.", "%(count)d tools are switched on.", number
            )
        else:
            text = ngettext(
                "%(count)d tool is switched off.", "%(count)d tools are switched off.", number
            )
        text %= {"count": number}
        if rest:
            more = ngettext("%(count)d was so before.", "%(count)d were so before.", rest)
            text += f" {more % {'count': rest}}"
        self.message_user(request, text, messages.SUCCESS if number else messages.WARNING)
        self.tell(request, before)

    def tell(self, request: HttpRequest, before: Sequence[tuple[Entry, str]]) -> None:
        """Say what a change does, given the tools as they were before, each with a description."""
        if before:
            for text, level in messages_on(before, self.get_queryset(request)):
                self.message_user(request, text, level)


def who(entry: Entry, audience: Audience | None) -> str:
    """Return in words who can use a tool now, and who could if it were served."""
    if audience is None:
        return gettext("nobody")
    if entry.is_served:
        return str(audience)
    return gettext("nobody now; when it is on: %(audience)s") % {"audience": audience}
