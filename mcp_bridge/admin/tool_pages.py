"""The pages of the tools beside Django's own: what a user sees, and a trial."""

from __future__ import annotations

import json
from typing import Final

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext

from mcp_bridge.admin.audience import may_view_users
from mcp_bridge.admin.base import Context
from mcp_bridge.admin.candidates import CandidatePages
from mcp_bridge.admin.entries import Entry
from mcp_bridge.admin.records import recorded_arguments
from mcp_bridge.admin.sees import found
from mcp_bridge.admin.try_tool.call import call, shown
from mcp_bridge.admin.try_tool.forms import ArgumentsForm
from mcp_bridge.confirmation.rendering import visible
from mcp_bridge.models import ToolCallRecord, ToolSetting

# What shows the pictures and sounds of a result.
_RESULTS: Final = forms.Media(js=["mcp_bridge/results.js"])


class ToolPages(CandidatePages):
    """The pages of each tool, and of what somebody sees of all of them."""

    pages = {
        **CandidatePages.pages,
        "sees": "sees/",
        "try": "<path:object_id>/try/",
    }

    def try_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show a form of the tool's parameters; a POST of it calls the tool as the user."""
        setting: ToolSetting = self.viewed(request, object_id)
        entry = Entry.of(setting)
        context: Context = {"title": gettext("Try a tool"), "subtitle": setting}
        context |= {"original": setting, "entry": entry}
        if entry.shown is None or not entry.is_served:
            return self.page(request, "try", context)
        form = ArgumentsForm(entry.definition["inputSchema"], request.POST or None)
        if request.method == "GET" and self.can_link(request, ToolCallRecord):
            sent = recorded_arguments(request.GET.get("record", ""), setting.name)
            form.prefill(sent)
            context["is_filled_in"] = bool(sent)
        context |= {"form": form, "media": self.media + form.media + _RESULTS}
        if request.method != "POST" or "_edit" in request.POST or not form.is_valid():
            return self.page(request, "try", context)
        arguments = form.arguments()
        if entry.asks_first and "_confirmed" not in request.POST:
            written = json.dumps(arguments, indent=2, ensure_ascii=False)
            context["arguments"] = visible(written)
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
        """Show the tools that somebody sees, and why not the rest, to those who may view users."""
        if not self.has_view_permission(request) or not may_view_users(request):
            raise PermissionDenied
        context = {"title": gettext("What a user sees"), **found(request.GET)}
        return self.page(request, "sees", context)
