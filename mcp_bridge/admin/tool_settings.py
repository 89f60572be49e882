"""The admin of the tools: their list, and the page of each with its settings."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminTextareaWidget
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin import tool_list
from mcp_bridge.admin.audience import Audience, Audiences, may_view_users, named
from mcp_bridge.admin.base import Context
from mcp_bridge.admin.differences import changes
from mcp_bridge.admin.entries import Entry
from mcp_bridge.admin.schema_tables import parameters
from mcp_bridge.admin.tool_views import ToolViews
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.registry.fingerprints import fingerprint


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
            field = self.fields["rate"]
            field.help_text = f"{field.help_text} {Entry.of(self.instance).rate}"

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        given = self.cleaned_data
        if given.get("groups") and not given.get("restricted", True):
            self.add_error(
                "groups",
                gettext(
                    "Groups are chosen, but “Only for groups” is not ticked. Tick it to limit the "
                    "tool to these groups, or clear all groups to limit it to none."
                ),
            )
        return cleaned


class ToolSettingListForm(forms.ModelForm):
    """One row of the list."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["enabled"]
        label = gettext("%(name)s is enabled") % {"name": self.instance}
        field.widget.attrs["aria-label"] = label
        # A column has no place for it.
        field.help_text = ""


@admin.register(ToolSetting)
class ToolSettingAdmin(ToolViews):
    """The tools of the site: see, switch, limit, describe, approve and try them."""

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
    ]
    list_editable = ["enabled"]
    list_filter = [tool_list.StatusFilter, "enabled", "restricted"]
    list_per_page = 100
    ordering = ["name"]
    # Searched as models read them, which the rows alone do not know.
    search_fields = ["name", "title", "description"]
    search_help_text = _("By name, title and description.")
    actions = ["switch_on", "switch_off"]
    fieldsets = [
        (
            _("What you decide"),
            {"fields": ["enabled", "confirm", "restricted", "groups", "rate", "note"]},
        ),
        (_("Other words for models"), {"fields": ["title", "description"]}),
    ]
    # The number of its latest calls that a tool's page shows.
    latest_calls = 10

    def has_delete_permission(self, request: HttpRequest, obj: ToolSetting | None = None) -> bool:
        # An approval would be lost with the row of a tool that is still there.
        gone = obj is not None and Entry.of(obj).tool is None
        return gone and super().has_delete_permission(request, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolSetting]:
        return super().get_queryset(request).prefetch_related("groups")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[tool_list.ToolChangeList]:
        return tool_list.ToolChangeList

    def get_changelist_form(self, request: HttpRequest, **kwargs: Any) -> Any:
        return super().get_changelist_form(request, **{**kwargs, "form": ToolSettingListForm})

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ToolSetting], search_term: str
    ) -> tuple[QuerySet[ToolSetting], bool]:
        return tool_list.search(queryset, search_term), False

    def changelist_view(
        self, request: HttpRequest, extra_context: Context | None = None
    ) -> HttpResponse:
        context: Context = {}
        if self.has_view_permission(request):
            context = {
                "title": _("Tools"),
                "summary": tool_list.summary(),
                "may_view_users": may_view_users(request),
            }
            if self.can_link(request, PendingCall):
                status = PendingCall.Status.WAITING
                count = PendingCall.objects.filter(status=status).count()
                words = ngettext(
                    "%d call waits for approval.", "%d calls wait for approval.", count
                )
                context["pending"] = words % count if count else ""
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def render_change_form(
        self, request: HttpRequest, context: Context, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        # Read anew: a form that was refused leaves its values in the object.
        setting = self.get_queryset(request).get(pk=context["original"].pk)
        entry = Entry.of(setting)
        tool, rule = entry.shown, entry.rule
        context |= {"title": _("Tool"), "subtitle": setting, "entry": entry}
        if tool is not None and rule is not None:
            audience = Audiences([rule]).of(rule)
            context |= {"audience": audience, "who": who(entry, audience)}
            context["users"] = named(audience) if may_view_users(request) else []
            context["schemas"] = [
                (caption, parameters(schema), json.dumps(schema, indent=2, ensure_ascii=False))
                for caption, schema in (
                    (gettext("Parameters"), tool.input_schema),
                    (gettext("Result"), tool.output_schema),
                )
                if schema is not None
            ]
        if self.can_link(request, ToolCallRecord):
            records = ToolCallRecord.objects.filter(tool=setting.name)
            context["recent"] = records[: self.latest_calls]
        if entry.waits:
            context["changes"] = changes(setting.approved, entry.canonical_definition)
            context["fingerprint"] = fingerprint(entry.canonical_definition)
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(
        self, request: HttpRequest, obj: ToolSetting, form: forms.ModelForm, change: bool
    ) -> None:
        # An approval that was written in between is not to be undone.
        obj.save(update_fields=[name for name in form.changed_data if name != "groups"])

    @admin.display(description=_("title and source"))
    def served_title(self, row: Any) -> SafeString:
        # So that a long path can be broken.
        parts = (row.entry.tool.source if row.entry.tool else "").split("/")
        source = format_html_join(SafeString("/<wbr>"), "{}", ((part,) for part in parts))
        return format_html('{}<div class="mcp-path">{}</div>', row.entry.title, source)

    @admin.display(description=_("status"))
    def status(self, row: Any) -> SafeString:
        kind = "served" if row.entry.is_served else row.entry.status.value
        return format_html('<span class="mcp-status-{}">{}</span>', kind, row.entry.label)

    @admin.display(description=_("who can see it"))
    def who_can_see_it(self, row: Any) -> SafeString:
        needed = row.entry.rule.permissions if row.entry.rule else ()
        seen = format_html("{}", who(row.entry, row.audience))
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

    @admin.action(description=_("Switch on the selected tools"), permissions=["change"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[ToolSetting]) -> None:
        self._switch(request, queryset, on=True)

    @admin.action(description=_("Switch off the selected tools"), permissions=["change"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[ToolSetting]) -> None:
        self._switch(request, queryset, on=False)

    def _switch(self, request: HttpRequest, queryset: QuerySet[ToolSetting], *, on: bool) -> None:
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
