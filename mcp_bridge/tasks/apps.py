from __future__ import annotations

from django.apps import AppConfig
from django.core import checks

from mcp_bridge.signals import tool_call_decided


class TasksConfig(AppConfig):
    name = "mcp_bridge.tasks"
    label = "mcp_bridge_tasks"
    verbose_name = "MCP"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from mcp_bridge.tasks.checks import check_tasks
        from mcp_bridge.tasks.queueing import resume_held

        checks.register(check_tasks, "mcp_bridge")
        tool_call_decided.connect(resume_held, dispatch_uid="mcp_bridge_tasks")
