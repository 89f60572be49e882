"""The admin of tasks: what runs for whom, since when and how far, and a button to cancel it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_bridge.admin.base import BridgeAdmin, Context, column
from mcp_bridge.conf import conf
from mcp_bridge.confirmation.rendering import named_values, visible
from mcp_bridge.models import PendingCall, ToolCallRecord, ToolSetting
from mcp_bridge.protocol.errors import InternalError
from mcp_bridge.records.redaction import kept_arguments
from mcp_bridge.registry.registry import registry
from mcp_bridge.tasks.models import McpTask

Tasks = QuerySet[McpTask]


@admin.register(McpTask)
class McpTaskAdmin(BridgeAdmin):
    """The tasks, read-only except that they can be cancelled."""

    pages = {"cancel": "<path:object_id>/cancel/"}
    list_display = ["tool", "shown_status", "user", "created", "started", "message", "expires"]
    list_filter = ["status", "tool"]
    list_select_related = ["user"]
    search_fields = ["tool", "message", f"user__{get_user_model().USERNAME_FIELD}"]
    actions = ["cancel"]

    def get_queryset(self, request: HttpRequest) -> Tasks:
        return super().get_queryset(request).defer(*McpTask.LARGE)

    def get_fieldsets(self, request: HttpRequest, obj: McpTask | None = None) -> Any:
        fields = ["tool", "shown_status", "message", "failure", self.user_field(request)]
        times = ["created_at", "confirmed_at", "started_at", "seen_at", "updated_at", "expires_at"]
        return [(None, {"fields": fields}), (_("Times"), {"fields": times})]

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    has_delete_permission = has_change_permission

    def has_cancel_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return whether the administrator may cancel tasks."""
        return super().has_change_permission(request, obj)

    def render_change_form(
        self, request: HttpRequest, context: Context, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        task: McpTask = context["original"]
        tool, arguments = registry.discovered.tools.get(task.tool), ""
        if tool and task.arguments and task.is_of(tool) and conf.audit.ARGUMENTS != "none":
            arguments = kept_arguments(task.arguments, task.tool, tool)
        users = get_user_model()
        context |= {
            "is_open": not task.is_over and not task.is_expired,
            "may_cancel": self.has_cancel_permission(request, task),
            "tools": self.linked(request, ToolSetting, name=task.tool, kind="tool"),
            "records": self.linked(request, ToolCallRecord, pk=task.record),
            "waited": self.linked(request, PendingCall, pk=task.pending_call_id),
            "users": self.linked(request, users, pk=task.user_id),
            "user_opts": users._meta,
            "values": named_values(arguments or "null"),
            "arguments": visible(arguments),
            "keeps_arguments": conf.audit.ARGUMENTS != "none",
        }
        return super().render_change_form(request, context, *args, **kwargs)

    def cancel_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Cancel a task, unless it is over."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        with self.decision(request):
            task: McpTask = self.viewed(request, object_id)
            if not self.has_cancel_permission(request, task):
                raise PermissionDenied
            self._cancel(request, [task])
        return self.back_to(task)

    @admin.action(description=_("Cancel selected tasks"), permissions=["cancel"])
    def cancel(self, request: HttpRequest, queryset: Tasks) -> None:
        self._cancel(request, queryset)

    def _cancel(self, request: HttpRequest, tasks: Iterable[McpTask]) -> None:
        """Cancel and log the tasks that are not over, and report their number."""
        done = [task for task in tasks if task.become(McpTask.Status.CANCELLED)]
        for task in done:
            self.log_change(request, task, [{"changed": {"fields": ["status"]}}])
        if not done:
            text = gettext("Nothing was cancelled: the tasks have ended or expired.")
            self.message_user(request, text, messages.WARNING)
            return
        text = ngettext(
            "%(count)d task was cancelled.", "%(count)d tasks were cancelled.", len(done)
        )
        self.message_user(request, text % {"count": len(done)}, messages.SUCCESS)

    shown_status = column("task_status", _("status"), "status")
    created = column("task_created", _("created"), "created_at")
    started = column("task_started", _("started"), "started_at")
    expires = column("task_expires", _("expires"), "expires_at")

    @admin.display(description=_("error"))
    def failure(self, task: McpTask) -> str:
        # Other errors may quote the arguments; the record has their text without secrets.
        error = task.error or {}
        is_shown = error.get("code") == InternalError.code
        return str(error["message"]) if is_shown else self.get_empty_value_display()
