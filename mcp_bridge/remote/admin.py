"""The admin of the remote servers: their form, their buttons, and the state of their tools."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from django.contrib import admin, messages
from django.contrib.admin.options import IS_POPUP_VAR
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils.decorators import method_decorator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters

from mcp_bridge.admin.base import BridgeAdmin, Context, cell, column
from mcp_bridge.conf import conf
from mcp_bridge.models import ToolCallRecord, ToolSetting
from mcp_bridge.remote.forms import HeaderForm, HeaderFormSet, ServerForm, problem_of, stored_as
from mcp_bridge.remote.models import RemoteHeader, RemoteServer, host_error
from mcp_bridge.remote.overview import counts, health, tool_states

MOST_ROWS: Final = 500


class HeaderInline(admin.StackedInline):
    """The headers in the form of their server, whose permissions apply."""

    model = RemoteHeader
    form = HeaderForm
    formset = HeaderFormSet
    extra = 0

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.admin_site.get_model_admin(RemoteServer).has_view_permission(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        server = self.admin_site.get_model_admin(RemoteServer)
        if obj is None:
            return server.has_add_permission(request)
        return server.has_change_permission(request, obj)

    has_add_permission = has_delete_permission = has_change_permission

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        values = ["value", "secret"]
        if not self.has_change_permission(request, obj):
            values = ["shown_value"]
        return ["name", *values, "from_header", "is_required"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [] if self.has_change_permission(request, obj) else ["shown_value"]

    @admin.display(description=_("value"))
    def shown_value(self, header: RemoteHeader) -> str:
        return stored_as(header.value) if header.is_secret else header.value


@admin.register(RemoteServer)
class RemoteServerAdmin(BridgeAdmin):
    """The remote servers: add, verify and change them, and fetch their tools."""

    pages = {"verify": "<path:object_id>/verify/", "fetch": "<path:object_id>/fetch/"}
    form = ServerForm
    inlines = [HeaderInline]
    list_display = ["name", "host", "enabled", "tools", "fetched", "failure"]
    list_filter = ["enabled"]
    search_fields = ["name", "slug", "url"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return admin.ModelAdmin.has_add_permission(self, request)

    def get_prepopulated_fields(self, request: HttpRequest, obj: Any = None) -> dict[str, Any]:
        return {} if obj else {"slug": ["name"]}

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        # The names of its tools begin with it, and their settings and records refer to them.
        slug = ["slug"] if obj is not None and obj.tools.exists() else []
        return [*slug, "stored_secret"]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        credential = ["auth"]
        if obj is not None:
            credential.append("stored_secret")
        if obj is None or self.has_change_permission(request, obj):
            credential.append("secret")
            if obj is not None and obj.credential:
                credential.append("clear_secret")
        limits = ["first_byte_s", "whole_call_s", "idle_s", "max_body_bytes"]
        return [
            (None, {"fields": ["name", "slug", "url", "enabled"]}),
            (_("Credential"), {"fields": credential}),
            (_("Pass-through"), {"fields": ["permission"]}),
            (_("Limits"), {"fields": limits, "classes": ["collapse"]}),
        ]

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.host_error = getattr(request, "mcp_host_error", None)
        return form

    @method_decorator(sensitive_post_parameters())
    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        may_save = self.has_add_permission(request) or self.has_change_permission(request)
        if request.method == "POST" and may_save:
            # Before the transaction, in which others would wait for a slow resolver.
            vars(request)["mcp_host_error"] = host_error(request.POST.get("url", "").strip())
        return super().changeform_view(request, *args, **kwargs)

    def render_change_form(
        self, request: HttpRequest, context: Context, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        server = context["original"]
        if context["adminform"].form.is_stale:
            # Django would show the headers as they were sent.
            for each in context["inline_admin_formsets"]:
                each.formset = type(each.formset)(instance=server, prefix=each.formset.prefix)
        if server is not None:
            # Read again: a rejected form leaves its values on the object.
            saved: Any = RemoteServer.objects.get(pk=server.pk)
            saved.counts = counts([saved])[saved.pk]
            rows = saved.tools.order_by("gone", "remote_name")
            context |= {
                "server": saved,
                "states": tool_states(saved, rows[:MOST_ROWS]),
                "total": rows.count(),
                "sees_tools": self.can_link(request, ToolSetting),
                "candidates_url": self._candidates(request, saved),
                "is_recorded": conf.AUDIT is not None,
            }
            if self.can_link(request, ToolCallRecord):
                context["health"] = health(saved)
        return super().render_change_form(request, context, *args, **kwargs)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found: Any = super().get_changelist_instance(request)
        by_server = counts(found.result_list)
        for server in found.result_list:
            server.counts = by_server[server.pk]
        return found

    def response_add(self, request: HttpRequest, obj: Any, *args: Any) -> HttpResponse:
        response = super().response_add(request, obj, *args)
        if {"_addanother", IS_POPUP_VAR} & request.POST.keys():
            return response
        if not self.has_change_permission(request, obj):
            return response
        text = gettext("Next, verify that it can be reached, and fetch its tools.")
        self.message_user(request, text, messages.INFO)
        return self.back_to(obj)

    def verify_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Report whether the server can be reached, by a handshake."""
        return self._reach(request, object_id, is_fetch=False)

    def fetch_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Fetch the tools of the server, and report their numbers."""
        return self._reach(request, object_id, is_fetch=True)

    def _reach(self, request: HttpRequest, object_id: str, *, is_fetch: bool) -> HttpResponse:
        # Imported late: only the extra "remote" installs its packages.
        from mcp_bridge.remote.sync import SyncError, verify

        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        server: RemoteServer = self.viewed(request, object_id)
        if not self.has_change_permission(request, server):
            raise PermissionDenied
        try:
            text = self._fetched(request, server) if is_fetch else verify(server)
            self.message_user(request, text, messages.INFO)
        except SyncError as why:
            text = gettext("The remote server %(server)s %(problem)s.")
            self.message_user(request, text % {"server": server, "problem": why}, messages.ERROR)
        return self.back_to(server)

    def _fetched(self, request: HttpRequest, server: RemoteServer) -> str:
        """Fetch the tools of a server, log it, and return its result as HTML."""
        from mcp_bridge.remote.sync import sync

        found = sync(server)
        self.log_change(request, server, cell("remote_logged", {"found": found}))
        return cell("remote_fetched", {"found": found, "url": self._candidates(request, server)})

    def _candidates(self, request: HttpRequest, server: RemoteServer) -> str:
        """Return the URL of the candidates of a server, "" for users who may not view tools."""
        if not self.can_link(request, ToolSetting):
            return ""
        tools: Any = self.admin_site.get_model_admin(ToolSetting)
        return str(tools.address("candidates", query={"q": f"{server.slug}_"}))

    tools = column("remote_tools", _("tools"))
    fetched = column("remote_fetched_at", _("tools fetched"), "last_sync")
    failure = column("remote_failure", _("last error"), "last_error")

    @admin.display(description=_("host"), ordering="url")
    def host(self, server: RemoteServer) -> str:
        return urlsplit(server.url).netloc

    @admin.display(description=_("stored secret"))
    def stored_secret(self, server: RemoteServer) -> str:
        problem = problem_of(server.credential)
        text = stored_as(server.credential)
        if not problem:
            return text
        shown = {"stored": text, "problem": problem}
        return gettext("%(stored)s; it cannot be used: %(problem)s") % shown
