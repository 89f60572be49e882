"""The admin of the tools: their list, and pages to read, configure, approve and try each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminTextareaWidget
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.shortcuts import redirect
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.approvals import changed, definitions
from mcp_bridge.admin.audience import seen
from mcp_bridge.admin.base import BridgeAdmin, Context, RevisedForm, cell, column
from mcp_bridge.admin.candidates import MOST_CANDIDATES, FilterForm, candidates
from mcp_bridge.admin.entries import Entry
from mcp_bridge.admin.records import recent_calls
from mcp_bridge.admin.tool_list import FILTERS, RowForm, ToolChangeList, Tools, summary, where
from mcp_bridge.admin.try_tool import try_page
from mcp_bridge.features import Feature
from mcp_bridge.models import ToolCallRecord, ToolSetting
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.tool_status import mark_approved

# The pending tools on a page, which is also the most that can be approved at once.
PER_PAGE: Final = 300
# The most tools that messages name after one change.
MOST_NAMED: Final = 10


class ToolSettingForm(RevisedForm):
    """The settings of one tool."""

    class Meta:
        widgets = {
            "groups": forms.CheckboxSelectMultiple,
            "note": AdminTextareaWidget({"rows": 3}),
            "description": AdminTextareaWidget({"rows": 6}),
        }
        help_texts = {"groups": _("Groups with access if “Only for groups” is selected.")}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        tool = Entry.of(self.instance).tool
        if "confirm" in self.fields and tool and tool.options.confirm:
            # Shown but never saved: disabled fields do not count as changed.
            confirm = self.fields["confirm"]
            confirm.disabled, self.initial["confirm"] = True, True
            confirm.help_text = gettext(
                "Required by the code: each call needs a person's approval."
            )
        if "never_task" in self.fields and tool and tool.options.task == "required":
            never = self.fields["never_task"]
            never.disabled, self.initial["never_task"] = True, False
            never.help_text = gettext("Required by the code: it runs only as a task.")

    def clean(self) -> None:
        super().clean()
        given = self.cleaned_data
        if given.get("groups") and not given.get("restricted", True):
            text = gettext(
                "Groups are selected, but “Only for groups” is not. Select it to restrict access "
                "to these groups, or remove all groups."
            )
            self.add_error("groups", text)


@admin.register(ToolSetting)
class ToolSettingAdmin(BridgeAdmin):
    """The tools of the site: list, enable, restrict, describe, approve and try them."""

    pages = {
        "candidates": "candidates/",
        "switch_on": "candidates/switch-on/",
        "sees": "sees/",
        "try": "<path:object_id>/try/",
        "waiting": "waiting/",
        "approve": "<path:object_id>/approve/",
        "switch": "<path:object_id>/switch/",
    }
    form = ToolSettingForm
    fieldsets = [
        (
            _("Settings"),
            {"fields": ["enabled", "confirm", "restricted", "groups", "scopes", "rate", "note"]},
        ),
        (_("Override title and description"), {"fields": ["title", "description"]}),
    ]
    list_display = [
        *("tool", "enabled", "status", "what_it_does", "who_can_use_it", "calls", "tokens"),
    ]
    list_editable = ["enabled"]
    list_filter = FILTERS
    list_per_page = 100
    # The number of all tools is above the list already.
    show_full_result_count = False
    # Searched in the served texts, which are not in the rows.
    search_fields = ["name", "title", "description"]
    search_help_text = _("By name, title and description.")
    actions = ["switch_on", "switch_off"]
    try_view = try_page

    class Media:
        js = ["mcp_bridge/tools.js"]

    def get_queryset(self, request: HttpRequest) -> Tools:
        return super().get_queryset(request).prefetch_related("groups")

    def get_fieldsets(self, request: HttpRequest, obj: ToolSetting | None = None) -> Any:
        (title, settings), *others = self.fieldsets
        tool = None if obj is None else Entry.of(obj).tool
        fields = list(settings["fields"])
        if tool and tool.options.task and apps.is_installed("mcp_bridge.tasks"):
            fields.insert(2, "never_task")
        return [(title, {"fields": fields}), *others]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ToolChangeList]:
        return ToolChangeList

    def get_changelist_form(self, request: HttpRequest, **kwargs: Any) -> Any:
        return super().get_changelist_form(request, **{**kwargs, "form": RowForm})

    def get_search_results(
        self, request: HttpRequest, queryset: Tools, search_term: str
    ) -> tuple[Tools, bool]:
        """Return the tools whose served name, title and description contain all words."""
        words = search_term.casefold().split()

        def holds_all(entry: Entry) -> bool:
            text = f"{entry.setting.label}\n{entry.title}\n{entry.description}".casefold()
            return all(word in text for word in words)

        return where(request, queryset, holds_all) if words else queryset, False

    def list_context(self, request: HttpRequest) -> Context:
        return summary(self, request) | {"candidates": len(candidates())}

    def has_delete_permission(self, request: HttpRequest, obj: ToolSetting | None = None) -> bool:
        # Deleting the row of an existing tool would lose its approval.
        gone = obj is not None and Entry.of(obj).tool is None
        return gone and super().has_delete_permission(request, obj)

    def render_change_form(
        self, request: HttpRequest, context: Context, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        # Read again: a rejected form leaves its values on the object.
        setting = self.get_queryset(request).get(pk=context["original"].pk)
        entry = Entry.of(setting)
        context |= {"title": capfirst(setting.kind_name), "subtitle": setting, "entry": entry}
        (definition,) = definitions([entry])
        context |= {"definition": definition, "users": definition.users(request)}
        if self.can_link(request, ToolCallRecord):
            context |= recent_calls(setting)
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: ToolSetting, form: Any, change: bool) -> None:
        # Does not overwrite an approval that was saved meanwhile.
        obj.save(update_fields=[name for name in form.changed_data if name != "groups"])

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if form.changed_data:
            self.say_effects(request, form.instance)

    def construct_change_message(self, request: HttpRequest, form: Any, *args: Any) -> Any:
        """Return the changed values for the history, or Django's text if there are none."""
        default = super().construct_change_message(request, form, *args)
        texts = (
            changed(
                str(form.fields[name].label),
                form.get_initial_for_field(form.fields[name], name),
                form.cleaned_data[name],
            )
            for name in form.changed_data
        )
        return "; ".join(texts) or default

    def say_count(self, request: HttpRequest, done: str, count: int, rest: int = 0) -> None:
        """Report how many of the selected tools were changed; a warning if none was."""
        text = cell("decided", {"done": done, "count": count, "rest": rest})
        self.message_user(request, text, messages.SUCCESS if count else messages.WARNING)

    def say_effects(self, request: HttpRequest, *rows: ToolSetting) -> None:
        """Report who can use each changed tool now, for at most MOST_NAMED tools."""
        for each in definitions(map(Entry.of, rows[:MOST_NAMED])):
            self.message_user(request, *each.effect)
        if (rest := len(rows) - MOST_NAMED) > 0:
            self.message_user(request, cell("more_changed", {"rest": rest}), messages.SUCCESS)

    def switch_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Enable or disable a tool as posted; return the changes for the script."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        with self.decision(request):
            row = self.viewed(request, object_id)
            if not self.has_change_permission(request, row):
                raise PermissionDenied
            self._set_enabled(request, row, on=request.POST.get("enabled") == "on")
        (row.definition,) = definitions([Entry.of(row)])
        text, _level = row.definition.effect
        cells = {"status": self.status(row), "who_can_use_it": self.who_can_use_it(row)}
        return JsonResponse({"message": text, "undo": gettext("Undo"), "cells": cells})

    def _set_enabled(self, request: HttpRequest, row: ToolSetting, *, on: bool) -> bool:
        """Enable or disable a tool and log it; return whether that is a change."""
        if row.enabled is on:
            return False
        row.enabled = on
        row.save(update_fields=["enabled"])
        label = str(row._meta.get_field("enabled").verbose_name)
        self.log_change(request, row, changed(label, not on, on))
        return True

    tool = column("tool", _("tool"), "name")
    what_it_does = column("what_it_does", _("what it does"))
    status = column("status", _("status"))
    who_can_use_it = column("who_can_use_it", _("who can use it"))
    tokens = column("tokens", _("tokens"))
    calls = column("calls", _("calls in 7 days"), "week_calls")

    @admin.action(description=_("Enable selected tools"), permissions=["change"])
    def switch_on(self, request: HttpRequest, queryset: Tools) -> HttpResponse | None:
        return self._switch(request, queryset, on=True)

    @admin.action(description=_("Disable selected tools"), permissions=["change"])
    def switch_off(self, request: HttpRequest, queryset: Tools) -> HttpResponse | None:
        return self._switch(request, queryset, on=False)

    def _switch(self, request: HttpRequest, queryset: Tools, *, on: bool) -> HttpResponse | None:
        """Enable or disable tools; return the review of those that are pending approval."""
        chosen = [row for row in queryset if self.has_change_permission(request, row)]
        waiting = [row for row in chosen if on and Entry.of(row).waits]
        changed = [row for row in chosen if self._set_enabled(request, row, on=on)]
        switched = [row for row in changed if row not in waiting]
        if switched or not waiting:
            rest = len(chosen) - len(waiting) - len(switched)
            self.say_count(request, "enable" if on else "disable", len(switched), rest)
            self.say_effects(request, *switched)
        if not waiting:
            return None
        only = "-".join(str(row.pk) for row in waiting[:PER_PAGE])
        return redirect(self.address("waiting", query={"only": only}))

    def waiting_view(self, request: HttpRequest) -> HttpResponse:
        """Show the tools pending approval; a POST approves the selected, or keeps them disabled."""
        if request.method == "POST":
            done = "keep" if "_keep" in request.POST else "approve"
            self._decide(request, done, _ticked(request), registry.discovered.by_label)
            query = {name: each for name, each in request.GET.items() if name != "select"}
            return redirect(self.address("waiting", query=query))
        rows = self.get_queryset(request).order_by("kind", "name")
        waiting = {row.label: entry for row in rows if (entry := Entry.of(row)).waits}
        only = [key for key in request.GET.get("only", "").split("-") if key]
        offered = {
            label: registry.discovered.by_label[label]
            for label, each in waiting.items()
            if not only or str(each.setting.pk) in only
        }
        form = FilterForm(request, offered, PER_PAGE)
        context: Context = {
            "title": gettext("Tools pending approval"),
            "form": form,
            "definitions": definitions(waiting[tool.label] for tool in form.page),
            "reading": sum(tool.is_read_only for tool in form.page),
            "total": len(waiting),
            "may_approve": self.has_change_permission(request),
        }
        return self.page(request, "waiting_tools", context)

    def approve_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Approve the definition with the posted fingerprint, if it is still current."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        setting: ToolSetting = self.viewed(request, object_id)
        shown = {setting.label: request.POST.get("fingerprint", "")}
        self._decide(request, "approve", shown, registry.discovered.by_label)
        return self.back_to(setting)

    def _decide(
        self,
        request: HttpRequest,
        done: str,
        shown: Mapping[str, str],
        tools: Mapping[str, Feature],
    ) -> None:
        """Approve the definitions with the fingerprints shown: enabled, kept disabled or chosen."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        is_new = done == "choose"
        decided = []
        with self.decision(request):
            labels = [label for label in shown if label in tools]
            found = ToolSetting.objects.all() if is_new else self.get_queryset(request)
            found = found.filter(name__in=[tools[label].name for label in labels])
            # Only tools can be candidates.
            rows = {label: ToolSetting(name=label) for label in labels if is_new}
            rows |= {row.label: row for row in found.select_for_update() if row.label in labels}
            for label, row in rows.items():
                if not self.has_change_permission(request, row):
                    raise PermissionDenied
                entry = Entry(row, tools[label])
                if entry.fingerprint != shown[label] or not (is_new or entry.waits):
                    continue
                if is_new:
                    row.chosen = row.enabled = True
                row.enabled = row.enabled and done != "keep"
                mark_approved(row, tools[label], by=request.user)
                row.save()
                shown_as = {"done": done, "fingerprint": row.fingerprint[:12]}
                self.log_change(request, row, cell("logged", shown_as))
                decided.append(row)
        self.say_count(request, done, len(decided))
        self.say_effects(request, *(decided if done == "approve" else ()))
        if others := sorted(shown.keys() - {row.label for row in decided}):
            self.message_user(request, cell("not_decided", {"names": others}), messages.ERROR)

    def candidates_view(self, request: HttpRequest) -> HttpResponse:
        """Show a page of the candidates that are not enabled, without building them."""
        context: Context = {
            "title": gettext("Candidates"),
            "form": FilterForm(request, candidates(), MOST_CANDIDATES),
            "may_switch": self.has_change_permission(request),
        }
        return self.page(request, "candidates", context)

    def switch_on_view(self, request: HttpRequest) -> HttpResponse:
        """Show the selected candidates as tools; a POST from that page enables them."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        form = FilterForm(request, candidates(), MOST_CANDIDATES)
        ticked, back = _ticked(request), self.address("candidates", query=request.GET)
        names = [name for name in ticked or request.POST.getlist("name") if name in form.offered]
        if "_all" in request.POST:
            names = [each.name for each in form.page]
        if not names and "_confirmed" not in request.POST:
            text = gettext("Nothing was selected: select the candidates to enable.")
            self.message_user(request, text, messages.WARNING)
            return redirect(back)
        tools, errors = [], []
        for name in names[:MOST_CANDIDATES]:
            try:
                tools.append(registry.build(form.offered[name]))
            except ValueError as reason:
                errors.append((name, str(reason)))
        if "_confirmed" in request.POST:
            # Built here too, since another process may have shown them.
            self._decide(request, "choose", ticked, {tool.name: tool for tool in tools})
            return redirect(back)
        rows = {row.name: row for row in self.get_queryset(request).filter(name__in=names)}
        built = definitions(
            Entry(rows.get(tool.name) or ToolSetting(name=tool.name), tool) for tool in tools
        )
        context: Context = {
            "title": gettext("Enable candidates"),
            "built": built,
            "errors": errors,
            "tokens": sum(each.entry.tokens for each in built),
            "back": back,
        }
        return self.page(request, "switch_on", context)

    def sees_view(self, request: HttpRequest) -> HttpResponse:
        """Preview the tools that a user, group or anonymous caller sees, and why not others."""
        return self.page(request, "sees", seen(request))


def _ticked(request: HttpRequest) -> dict[str, str]:
    """Return the fingerprints that a page showed of the selected tools, by label."""
    # Each is posted as "fingerprint label".
    parts = (each.partition(" ") for each in request.POST.getlist("tool"))
    return {name: given for given, _, name in parts if name}
