"""The admin of the tools: their list, and the pages of each to read, set, approve and try it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.views.main import ChangeList
from django.contrib.admin.widgets import AdminTextareaWidget
from django.core.exceptions import PermissionDenied
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.audience import Audience, Audiences, may_view_users, named, tools_of
from mcp_bridge.admin.base import Choices, Context
from mcp_bridge.admin.call_records import FAILED, RAN, WEEK
from mcp_bridge.admin.candidates import CandidatePages
from mcp_bridge.admin.differences import changes
from mcp_bridge.admin.entries import Entry, entries, where
from mcp_bridge.admin.scopes import ScopeFilter, set_scopes
from mcp_bridge.admin.toolsets import ToolsetFilter, lengths
from mcp_bridge.admin.try_tool.call import call, shown
from mcp_bridge.admin.try_tool.forms import ArgumentsForm
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.registry.tool_status import APPROVAL, ToolStatus, mark_approved

Tools = QuerySet[ToolSetting]


class ToolSettingForm(forms.ModelForm):
    """The settings of one tool."""

    class Meta:
        widgets = {
            "groups": forms.CheckboxSelectMultiple,
            "note": AdminTextareaWidget({"rows": 3}),
            "description": AdminTextareaWidget({"rows": 6}),
        }
        help_texts = {"groups": _("Which groups, where “Only for groups” is ticked.")}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "rate" in self.fields and self.instance.pk:
            entry = Entry.of(self.instance)
            for name, text in {"rate": entry.rate, "scopes": entry.scopes_in_code}.items():
                field = self.fields[name]
                field.help_text = f"{field.help_text} {text}"

    def clean(self) -> None:
        super().clean()
        given = self.cleaned_data
        if given.get("groups") and not given.get("restricted", True):
            text = gettext(
                "Groups are chosen, but “Only for groups” is not ticked. Tick it to limit the "
                "tool to these groups, or clear all groups to limit it to none."
            )
            self.add_error("groups", text)


class ToolSettingListForm(forms.ModelForm):
    """One row of the list."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["enabled"]
        field.widget.attrs["aria-label"] = gettext("%(name)s is enabled") % {"name": self.instance}
        # A column has no place for it.
        field.help_text = ""


class ToolChangeList(ChangeList):
    """A list whose rows have their ``entry`` and ``audience``, which is None where it is gone."""

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Tools:
        """Add to the rows when each tool was last called, and how often in the last week."""
        records = ToolCallRecord.objects.filter(RAN, tool=OuterRef("name"))
        week = records.filter(started_at__gte=timezone.now() - WEEK).order_by().values("tool")
        failures = week.annotate(count=Count("pk", filter=FAILED))
        # Without the long texts that no column shows.
        rows: Tools = super().get_queryset(request, *args, **kwargs).defer("approved", "note")
        return rows.annotate(
            last_called=Subquery(records.order_by("-started_at").values("started_at")[:1]),
            week_calls=Subquery(week.annotate(count=Count("pk")).values("count")),
            week_failures=Subquery(failures.values("count")),
        )

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows: list[Any] = list(self.result_list)
        for row in rows:
            row.entry = Entry.of(row)
        audiences = Audiences(row.entry.rule for row in rows if row.entry.rule)
        for row in rows:
            row.audience = audiences.of(row.entry.rule) if row.entry.rule else None


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
            return where(queryset, lambda entry: entry.waits)
        return where(queryset, lambda entry: entry.status == wanted)


@admin.register(ToolSetting)
class ToolSettingAdmin(CandidatePages):
    """The tools of the site: see, switch, limit, describe, approve and try them."""

    pages = {
        **CandidatePages.pages,
        "sees": "sees/",
        "approve": "<path:object_id>/approve/",
        "try": "<path:object_id>/try/",
    }
    form = ToolSettingForm
    list_display = [
        "name",
        "enabled",
        "status",
        "who_can_see_it",
        "last_called",
        "calls_in_a_week",
        "served_title",
        "hints",
        "tokens",
    ]
    list_editable = ["enabled"]
    list_filter = [StatusFilter, "enabled", "restricted", ScopeFilter, ToolsetFilter]
    list_per_page = 100
    # Searched as models read them, which the rows alone do not know.
    search_fields = ["name", "title", "description"]
    search_help_text = _("By name, title and description.")
    actions = ["switch_on", "switch_off", set_scopes]
    fieldsets = [
        (
            _("What you decide"),
            {"fields": ["enabled", "confirm", "restricted", "groups", "scopes", "rate", "note"]},
        ),
        (_("Other words for models"), {"fields": ["title", "description"]}),
    ]

    def has_delete_permission(self, request: HttpRequest, obj: ToolSetting | None = None) -> bool:
        # An approval would be lost with the row of a tool that is still there.
        gone = obj is not None and Entry.of(obj).tool is None
        return gone and super().has_delete_permission(request, obj)

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

        return where(queryset, holds_all) if words else queryset, False

    def list_context(self, request: HttpRequest) -> Context:
        counted = Counter(entry.status for entry in entries())
        context = super().list_context(request) | {
            "may_view_users": may_view_users(request),
            "waiting": counted[ToolStatus.NEW] + counted[ToolStatus.CHANGED],
            "total": counted.total() - counted[ToolStatus.GONE],
            "off": counted[ToolStatus.DISABLED],
            "gone": counted[ToolStatus.GONE],
            "lengths": lengths(),
        }
        if self.can_link(request, PendingCall):
            pending = PendingCall.objects.filter(status=PendingCall.Status.WAITING)
            context["pending"] = pending.count()
        return context

    def render_change_form(
        self, request: HttpRequest, context: Context, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        # Read anew: a form that was refused leaves its values in the object.
        setting = self.get_queryset(request).get(pk=context["original"].pk)
        entry = Entry.of(setting)
        tool = entry.shown
        context |= {"title": _("Tool"), "subtitle": setting, "entry": entry}
        if tool is not None:
            audience = Audiences([tool.access]).of(tool.access)
            context |= {"audience": audience, "who": who(entry, audience)}
            context["users"] = named(audience) if may_view_users(request) else []
            context["schemas"] = entry.schemas
        if self.can_link(request, ToolCallRecord):
            context["recent"] = ToolCallRecord.objects.filter(tool=setting.name)[:10]
        if entry.waits:
            context["changes"] = changes(setting.approved, entry.canonical_definition)
            context["fingerprint"] = entry.fingerprint
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(
        self, request: HttpRequest, obj: ToolSetting, form: forms.ModelForm, change: bool
    ) -> None:
        # An approval that was written in between is not to be undone.
        obj.save(update_fields=[name for name in form.changed_data if name != "groups"])

    def approve_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Approve the definition with the posted fingerprint, if it is still the code's."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        viewed = self.viewed(request, object_id)
        with self.decision(request):
            setting = self.get_queryset(request).select_for_update().get(pk=viewed.pk)
            if not self.has_change_permission(request, setting):
                raise PermissionDenied
            entry, given = Entry.of(setting), request.POST.get("fingerprint", "")
            level = messages.WARNING
            if entry.tool is None or not entry.waits:
                text = gettext("Nothing was approved: %(name)s does not wait for approval.")
            elif given != entry.fingerprint:
                level = messages.ERROR
                text = gettext(
                    "Not approved: %(name)s has changed again since the page was opened. Read what "
                    "it is now, and approve that if it is right."
                )
            else:
                mark_approved(setting, entry.tool, by=request.user)
                setting.save(update_fields=APPROVAL)
                self.log_change(request, setting, f"Approved the definition {given[:12]}.")
                level = messages.SUCCESS
                text = gettext("Approved: %(name)s. Its status: %(status)s.")
        values = {"name": setting, "status": Entry.of(setting).label}
        self.message_user(request, text % values, level)
        return self.back_to(setting)

    def try_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show a form of the tool's parameters; a POST of it calls the tool as the user."""
        setting: ToolSetting = self.viewed(request, object_id)
        entry = Entry.of(setting)
        context: Context = {"title": gettext("Try a tool"), "subtitle": setting}
        context |= {"original": setting, "entry": entry}
        if entry.shown is None or not entry.is_served:
            return self.page(request, "try", context)
        form = ArgumentsForm(entry.definition["inputSchema"], request.POST or None)
        context |= {"form": form, "media": self.media + form.media}
        if request.method != "POST" or "_edit" in request.POST or not form.is_valid():
            return self.page(request, "try", context)
        arguments = form.arguments()
        if entry.asks_first and "_confirmed" not in request.POST:
            context["arguments"] = json.dumps(arguments, indent=2, ensure_ascii=False)
            # The filled-in fields, to be sent once more.
            context["sent"] = [
                (name, value)
                for name, values in request.POST.lists()
                if name.startswith(f"{form.prefix}-")
                for value in values
            ]
            return self.page(request, "confirm", context)
        outcome = call(setting.name, arguments, request, confirmed=entry.asks_first)
        if outcome.result is not None:
            context["shown"] = shown(outcome.result)
            form.add_tool_errors(context["shown"].errors)
        return self.page(request, "try", {**context, "refusal": outcome.refusal})

    def sees_view(self, request: HttpRequest) -> HttpResponse:
        """Show the tools that a chosen user sees, to those who may view users."""
        if not self.has_view_permission(request) or not may_view_users(request):
            raise PermissionDenied
        term = request.GET.get("q", "").strip()
        found = tools_of(request.GET.get("user", ""), term)
        context = {"title": gettext("What a user sees"), "term": term, **found}
        return self.page(request, "sees", context)

    @admin.display(description=_("title and source"))
    def served_title(self, row: Any) -> SafeString:
        # So that a long path can be broken.
        parts = row.entry.source.split("/")
        source = format_html_join(SafeString("/<wbr>"), "{}", ((part,) for part in parts))
        return format_html('{}<div class="mcp-path">{}</div>', row.entry.title, source)

    @admin.display(description=_("status"))
    def status(self, row: Any) -> SafeString:
        kind = "served" if row.entry.is_served else row.entry.status.value
        return format_html('<span class="mcp-status-{}">{}</span>', kind, row.entry.label)

    @admin.display(description=_("who can see it"))
    def who_can_see_it(self, row: Any) -> str:
        needed = row.entry.rule.permissions if row.entry.rule else ()
        seen = who(row.entry, row.audience)
        if not needed:
            return seen
        return format_html('{}<div class="mcp-path">{}</div>', seen, ", ".join(needed))

    @admin.display(description=_("last called"))
    def last_called(self, row: Any) -> object:
        return row.last_called

    @admin.display(description=_("in 7 days"))
    def calls_in_a_week(self, row: Any) -> str:
        calls, failures = row.week_calls or 0, row.week_failures or 0
        words = ngettext("%d call", "%d calls", calls) % calls
        return words + (gettext(", %d failed") % failures if failures else "")

    @admin.display(description=_("hints"))
    def hints(self, row: Any) -> str:
        return ", ".join(short for short, _full in row.entry.hints)

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
        for row in switched:
            row.enabled = on
            row.save(update_fields=["enabled"])
            self.log_change(request, row, [{"changed": {"fields": ["Enabled"]}}])
        count, rest = len(switched), len(chosen) - len(switched)
        text = (
            ngettext("%d tool is switched on.", "%d tools are switched on.", count)
            if on
            else ngettext("%d tool is switched off.", "%d tools are switched off.", count)
        ) % count
        if rest:
            text += " " + ngettext("%d was so before.", "%d were so before.", rest) % rest
        self.message_user(request, text, messages.SUCCESS if count else messages.WARNING)


def who(entry: Entry, audience: Audience | None) -> str:
    """Return in words who can see a tool now, and who could if it were served."""
    if audience is None:
        return gettext("nobody")
    if entry.is_served:
        return str(audience)
    return gettext("nobody now; when it is on: %(audience)s") % {"audience": audience}
