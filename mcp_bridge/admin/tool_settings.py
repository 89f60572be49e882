"""The admin of the tools: their list, and the pages of each to read, set, approve and try it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.options import IS_POPUP_VAR
from django.contrib.admin.widgets import AdminTextareaWidget
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.approvals import ApprovalPages, definitions
from mcp_bridge.admin.audience import may_view_users, named
from mcp_bridge.admin.base import Context, RevisedForm
from mcp_bridge.admin.differences import changes
from mcp_bridge.admin.effects import before_change, changed_fields
from mcp_bridge.admin.entries import Entry
from mcp_bridge.admin.records import recent_calls
from mcp_bridge.admin.tool_list import ToolListPages, who
from mcp_bridge.admin.tool_pages import ToolPages
from mcp_bridge.models import ToolCallRecord, ToolSetting


class ToolSettingForm(RevisedForm):
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
        if "rate" not in self.fields or not self.instance.pk:
            return
        entry = Entry.of(self.instance)
        for name, text in {"rate": entry.rate, "scopes": entry.scopes_in_code}.items():
            field = self.fields[name]
            field.help_text = f"{field.help_text} {text}"
        if entry.asks_in_code:
            # Shown as it is, and never written: what is disabled is no change.
            confirm = self.fields["confirm"]
            confirm.disabled, confirm.initial = True, True
            self.initial["confirm"] = True
            confirm.help_text = gettext(
                "The tool is made so: each call waits until a person has agreed to it."
            )

    def clean(self) -> None:
        super().clean()
        given = self.cleaned_data
        if given.get("groups") and not given.get("restricted", True):
            text = gettext(
                "Groups are chosen, but “Only for groups” is not ticked. Tick it to limit the "
                "tool to these groups, or clear all groups to limit it to none."
            )
            self.add_error("groups", text)


@admin.register(ToolSetting)
class ToolSettingAdmin(ToolListPages, ApprovalPages, ToolPages):
    """The tools of the site: see, switch, limit, describe, approve and try them."""

    pages = {**ToolPages.pages, **ApprovalPages.pages, **ToolListPages.pages}
    form = ToolSettingForm
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

    def render_change_form(
        self, request: HttpRequest, context: Context, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        # Read anew: a form that was refused leaves its values in the object.
        setting = self.get_queryset(request).get(pk=context["original"].pk)
        entry = Entry.of(setting)
        context |= {"title": _("Tool"), "subtitle": setting, "entry": entry}
        for definition in definitions([entry]):
            audience = definition.audience
            context |= {"audience": audience, "who": who(entry, audience)}
            context["warning"] = definition.warning
            context["users"] = named(audience) if may_view_users(request) else []
            context["schemas"] = entry.schemas
            context["needed"] = definition.needed
        if self.can_link(request, ToolCallRecord):
            context |= recent_calls(setting.name)
        if entry.waits:
            context["changes"] = changes(setting.approved, entry.canonical_definition)
            context["fingerprint"] = entry.fingerprint
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(
        self, request: HttpRequest, obj: ToolSetting, form: forms.ModelForm, change: bool
    ) -> None:
        names = [name for name in form.changed_data if name != "groups"]
        before = before_change(obj, **{name: form.initial[name] for name in names})
        # An approval that was written in between is not to be undone.
        obj.save(update_fields=names)
        if fields := changed_fields(form):
            fields.pop("enabled", None)
            _changed_in(request).append((before, "; ".join(fields.values())))

    def construct_change_message(
        self, request: HttpRequest, form: Any, formsets: Any, add: bool = False
    ) -> Any:
        """Return the changed values for the history; Django's own text where there are none."""
        text = "; ".join(changed_fields(form).values())
        return text or super().construct_change_message(request, form, formsets, add)

    def response_change(self, request: HttpRequest, obj: ToolSetting) -> HttpResponse:
        """Say what the change does in place of Django's own message."""
        if IS_POPUP_VAR in request.POST:
            return super().response_change(request, obj)
        if before := _changed_in(request):
            self.tell(request, before)
        else:
            text = gettext("Nothing was changed in “%(name)s”.") % {"name": obj}
            self.message_user(request, text, messages.INFO)
        if "_continue" in request.POST:
            return HttpResponseRedirect(request.get_full_path())
        return self.response_post_save_change(request, obj)

    def changelist_view(
        self, request: HttpRequest, extra_context: Context | None = None
    ) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        self.tell(request, _changed_in(request))
        return response


def _changed_in(request: HttpRequest) -> list[tuple[Entry, str]]:
    """Return the tools that forms of the request have changed, as they were, with what changed."""
    found: list[tuple[Entry, str]] = request.__dict__.setdefault("mcp_bridge_changed", [])
    return found
