"""The pages of a tool beside those of Django's admin: approve, try, and the tools of a user."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from django.contrib import messages
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.utils.translation import gettext

from mcp_bridge.access.policy import visible
from mcp_bridge.admin.audience import may_view_users
from mcp_bridge.admin.base import BridgeAdmin, Context, View
from mcp_bridge.admin.entries import Entry
from mcp_bridge.admin.try_tool.call import call, shown
from mcp_bridge.admin.try_tool.forms import ArgumentsForm
from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.fingerprints import fingerprint
from mcp_bridge.registry.tool_status import APPROVAL, mark_approved

# The number of users that a search names.
FOUND: Final = 20


class ToolViews(BridgeAdmin):
    """The pages of tools that Django's admin does not have."""

    def further_pages(self) -> Mapping[str, tuple[str, View]]:
        return {
            "sees": ("sees/", self.sees),
            "approve": ("<path:object_id>/approve/", self.approve),
            "try": ("<path:object_id>/try/", self.try_tool),
        }

    def approve(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Approve the definition with the posted fingerprint, if it is still the code's."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        viewed = self.viewed(request, object_id)
        with self.decision(request):
            setting = self.get_queryset(request).select_for_update().get(pk=viewed.pk)
            if not self.has_change_permission(request, setting):
                raise PermissionDenied
            entry, given = Entry.of(setting), request.POST.get("fingerprint", "")
            if entry.tool is None or not entry.waits:
                level = messages.WARNING
                text = gettext("Nothing was approved: %(name)s does not wait for approval.")
            elif given != fingerprint(entry.canonical_definition):
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
        return HttpResponseRedirect(self.address("change", quote(setting.pk)))

    def try_tool(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show a form of the tool's parameters; a POST of it calls the tool as the user."""
        setting: ToolSetting = self.viewed(request, object_id)
        entry = Entry.of(setting)
        context: Context = {"title": gettext("Try a tool"), "subtitle": setting}
        context |= {"original": setting, "entry": entry}
        if entry.shown is None or not entry.is_served:
            return self.page(request, "try", context)
        form = ArgumentsForm(entry.shown.input_schema, request.POST or None)
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

    def sees(self, request: HttpRequest) -> HttpResponse:
        """Show the tools that a chosen user sees, to those who may view users."""
        if not self.has_view_permission(request) or not may_view_users(request):
            raise PermissionDenied
        term, key = request.GET.get("q", "").strip(), request.GET.get("user", "")
        model = get_user_model()
        try:
            chosen = model._default_manager.filter(pk=key).first() if key else None
        except (ValueError, ValidationError):
            chosen = None
        users: list[Any] = []
        if term and chosen is None:
            matching = model._default_manager.filter(**{f"{model.USERNAME_FIELD}__icontains": term})
            users = list(matching.order_by(model.USERNAME_FIELD)[: FOUND + 1])
            chosen = users[0] if len(users) == 1 else None
        context: Context = {"title": gettext("What a user sees"), "term": term, "chosen": chosen}
        context |= {"users": users[:FOUND], "more": len(users) > FOUND}
        if chosen is not None:
            tools = visible(chosen)
            rows = ToolSetting.objects.filter(name__in=[tool.name for tool in tools])
            keys = dict(rows.values_list("name", "pk"))
            context["tools"] = [(tool, keys.get(tool.name)) for tool in tools]
        return self.page(request, "sees", context)
