"""The pages that show definitions of tools and approve them: of one tool, and of all that wait."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext

from mcp_bridge.admin.audience import Audience, Audiences
from mcp_bridge.admin.base import BridgeAdmin, Context
from mcp_bridge.admin.differences import Change, changes
from mcp_bridge.admin.effects import can_use
from mcp_bridge.admin.entries import Entry
from mcp_bridge.admin.permissions import permission_titles
from mcp_bridge.admin.warnings import warning
from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.tool_status import APPROVAL, mark_approved

# The tools on a page of those that wait, which is as many as a person reads in one go.
PER_PAGE: Final = 20


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as it is shown to somebody who is to approve it."""

    entry: Entry
    audience: Audience
    # The permissions that a caller needs, and what they are called.
    needed: Sequence[tuple[str, str]]

    # What is approved are the code's own words, also where administrators have set others.

    @property
    def title(self) -> str:
        return str((self.entry.tool and self.entry.tool.title) or self.entry.setting.name)

    @property
    def description(self) -> str:
        return str(self.entry.tool.description) if self.entry.tool else ""

    @property
    def warning(self) -> str:
        return warning(self.entry.shown, self.audience) if self.entry.shown else ""

    @property
    def changes(self) -> list[Change]:
        """What has changed since it was approved; nothing where it is new."""
        setting = self.entry.setting
        if not setting.fingerprint:
            return []
        return changes(setting.approved, self.entry.canonical_definition)

    @property
    def raw(self) -> str:
        """All that is approved, as JSON text."""
        return json.dumps(json.loads(self.entry.canonical_definition), indent=2, ensure_ascii=False)


def definitions(entries: Iterable[Entry]) -> list[Definition]:
    """Return the definitions of the entries that have a tool."""
    found = [(entry, entry.rule) for entry in entries if entry.rule is not None]
    audiences = Audiences(rule for _entry, rule in found)
    titles = permission_titles(name for _entry, rule in found for name in rule.permissions)
    return [
        Definition(entry, audiences.of(rule), [(name, titles[name]) for name in rule.permissions])
        for entry, rule in found
    ]


class ApprovalPages(BridgeAdmin):
    """The pages that approve tools, beside those of the tools."""

    pages = {"waiting": "waiting/", "approve": "<path:object_id>/approve/"}

    def waiting_view(self, request: HttpRequest) -> HttpResponse:
        """Show the tools that wait for approval; a POST approves those of them that are ticked."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            if not self.has_change_permission(request):
                raise PermissionDenied
            self._approve_all(request, request.POST.getlist("tool"))
            name = f"admin:{self.opts.app_label}_{self.opts.model_name}_waiting"
            return HttpResponseRedirect(reverse(name, current_app=self.admin_site.name))
        rows = self.get_queryset(request).order_by("name")
        waiting = [entry for entry in map(Entry.of, rows) if entry.waits]
        page = Paginator(waiting, PER_PAGE).get_page(request.GET.get("p"))
        context: Context = {
            "title": gettext("Tools that wait for approval"),
            "page": page,
            "pages": page.paginator.get_elided_page_range(page.number),
            "definitions": definitions(page),
            "may_approve": self.has_change_permission(request),
        }
        return self.page(request, "waiting_tools", context)

    def _approve_all(self, request: HttpRequest, posted: Iterable[str]) -> None:
        """Approve the tools that still are what was shown; each is posted as "fingerprint name"."""
        parts = (each.partition(" ") for each in posted)
        shown = {name: given for given, _, name in parts if name and "\0" not in name}
        approved = []
        with self.decision(request):
            rows = self.get_queryset(request).select_for_update().filter(name__in=shown)
            for setting in rows:
                if not self.has_change_permission(request, setting):
                    raise PermissionDenied
                if self._approve(request, setting, shown[setting.name]):
                    approved.append(setting.name)
        count = len(approved)
        text = ngettext("%(count)d tool is approved.", "%(count)d tools are approved.", count)
        text %= {"count": count}
        self.message_user(request, text, messages.SUCCESS if count else messages.WARNING)
        if others := sorted(shown.keys() - approved):
            text = gettext(
                "Not approved, since they have changed or wait no longer since the page was "
                "opened: %(names)s."
            )
            self.message_user(request, text % {"names": ", ".join(others)}, messages.ERROR)

    def approve_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Approve the definition with the posted fingerprint, if it is still the code's."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        viewed = self.viewed(request, object_id)
        with self.decision(request):
            setting = self.get_queryset(request).select_for_update().get(pk=viewed.pk)
            if not self.has_change_permission(request, setting):
                raise PermissionDenied
            waits = Entry.of(setting).waits
            approved = self._approve(request, setting, request.POST.get("fingerprint", ""))
        level = messages.WARNING
        if approved:
            level = messages.SUCCESS
            text = gettext("Approved: %(name)s. Its status: %(status)s.")
        elif waits:
            level = messages.ERROR
            text = gettext(
                "Not approved: %(name)s has changed again since the page was opened. Read what "
                "it is now, and approve that if it is right."
            )
        else:
            text = gettext("Nothing was approved: %(name)s does not wait for approval.")
        now = Entry.of(setting)
        text %= {"name": setting, "status": now.label}
        if approved and now.shown and now.is_served:
            audience = Audiences([now.shown.access]).of(now.shown.access)
            text += f" {capfirst(can_use(now.shown, audience))}"
            level = messages.WARNING if warning(now.shown, audience) else level
        self.message_user(request, text, level)
        return self.back_to(setting)

    def _approve(self, request: HttpRequest, setting: ToolSetting, given: str) -> bool:
        """Approve a tool that waits, if its definition has the given fingerprint."""
        entry = Entry.of(setting)
        if entry.tool is None or not entry.waits or given != entry.fingerprint:
            return False
        mark_approved(setting, entry.tool, by=request.user)
        setting.save(update_fields=APPROVAL)
        logged = gettext("Approved the definition %(fingerprint)s.")
        self.log_change(request, setting, logged % {"fingerprint": given[:12]})
        return True
