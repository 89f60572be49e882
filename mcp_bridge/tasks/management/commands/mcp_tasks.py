from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from mcp_bridge.management.base import TablesCommand
from mcp_bridge.protocol.text import printable
from mcp_bridge.tasks.models import McpTask
from mcp_bridge.tasks.queueing import settle


class Command(TablesCommand):
    help = "List and cancel the tasks, and delete those whose time to live has passed."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        commands.add_parser("list", help="List the tasks, the newest first.")
        cancel = commands.add_parser("cancel", help="Cancel a task.")
        cancel.add_argument("id", help="The id shown by “list”.")
        text = "Delete expired tasks, end those whose worker has died, and queue lost ones again."
        commands.add_parser("expire", help=text)

    def handle(self, *, command: str, **options: Any) -> None:
        getattr(self, command)(**options)

    def list(self, **options: object) -> None:
        rows = McpTask.rows().select_related("user").defer(*McpTask.LARGE)
        for task in rows.iterator():
            state = "expired" if task.is_expired and not task.is_over else task.status
            state += " (error)" if task.is_error else ""
            since = f"since {task.started_at:%Y-%m-%d %H:%M}" if task.started_at else "not started"
            user = "-" if task.user is None else task.user.get_username()
            self.stdout.write(
                f"{task.pk:<32}  {state:<17} {since:<22} {user:<20} {task.tool}  "
                f"{printable(task.message)}"
            )

    def cancel(self, *, id: str, **options: object) -> None:
        task = McpTask.rows().filter(pk=id).first()
        if task is None:
            raise CommandError(f"Unknown task {id!r}: see mcp_tasks list.")
        if task.become(McpTask.Status.CANCELLED):
            self.stdout.write(f"Task {id} ({task.tool}) was cancelled.")
        else:
            state = "expired" if task.is_expired else task.status
            self.stdout.write(f"Task {id} ({task.tool}) was over already: {state}.")

    def expire(self, **options: object) -> None:
        tasks = list(McpTask.rows().filter(McpTask.open()).defer(*McpTask.LARGE))
        for task in tasks:
            settle(task)
        failed = sum(task.status == McpTask.Status.FAILED for task in tasks)
        deleted = McpTask.rows().filter(expires_at__lte=timezone.now()).delete()[0]
        self.stdout.write(f"Expired and deleted: {deleted}. Failed with their worker: {failed}.")
