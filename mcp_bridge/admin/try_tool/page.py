"""The page that tries a tool: a form of its parameters, a question, and the result."""

from __future__ import annotations

import json
from typing import Final

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext

from mcp_bridge.admin.base import Context, PagesAdmin
from mcp_bridge.admin.entries import Entry
from mcp_bridge.admin.records import recorded_arguments
from mcp_bridge.admin.try_tool.call import call, shown
from mcp_bridge.admin.try_tool.forms import ArgumentsForm
from mcp_bridge.confirmation.rendering import visible
from mcp_bridge.models import ToolCallRecord, ToolSetting

# What shows the pictures and sounds of a result.
_RESULTS: Final = forms.Media(js=["mcp_bridge/results.js"])


def try_page(model_admin: PagesAdmin, request: HttpRequest, setting: ToolSetting) -> HttpResponse:
    """Show a form of a tool's parameters; a POST of it calls the tool as the user."""
    entry = Entry.of(setting)
    context: Context = {"title": gettext("Try a tool"), "subtitle": setting}
    context |= {"original": setting, "entry": entry}
    if entry.shown is None or not entry.is_served:
        return model_admin.page(request, "try", context)
    form = ArgumentsForm(entry.definition["inputSchema"], request.POST or None)
    if request.method == "GET" and model_admin.can_link(request, ToolCallRecord):
        sent = recorded_arguments(request.GET.get("record", ""), setting.name)
        form.prefill(sent)
        context["is_filled_in"] = bool(sent)
    context |= {"form": form, "media": model_admin.media + form.media + _RESULTS}
    if request.method != "POST" or "_edit" in request.POST or not form.is_valid():
        return model_admin.page(request, "try", context)
    arguments = form.arguments()
    if entry.asks_first and "_confirmed" not in request.POST:
        context["arguments"] = visible(json.dumps(arguments, indent=2, ensure_ascii=False))
        # The filled-in fields, to be sent once more.
        context["sent"] = [
            (name, value)
            for name, values in request.POST.lists()
            if name.startswith(f"{form.prefix}-")
            for value in values
        ]
        return model_admin.page(request, "confirm", context)
    outcome = call(setting.name, arguments, request, confirmed=entry.asks_first)
    if outcome.result is not None:
        context["shown"] = shown(outcome.result)
        form.add_tool_errors(context["shown"].errors)
    return model_admin.page(request, "try", {**context, "refusal": outcome.refusal})
