from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final

from django.apps import apps
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError, router
from django.db.models import Model, QuerySet
from django.utils import timezone

from mcp_bridge.management.base import TablesCommand, duration
from mcp_bridge.models import PendingCall, ToolCallRecord, UsedState
from mcp_bridge.models.outcomes import Outcome
from mcp_bridge.records.rows import flush, restore

# Deleted in batches, so that the table is not locked for long.
_AT_ONCE: Final = 10_000


class Command(TablesCommand):
    help = (
        "Delete old records, old decided calls and expired tasks (prune), settle the records of "
        "killed processes (reap), or write lost records from the log (restore)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        does = parser.add_subparsers(dest="does", required=True)
        prune = does.add_parser("prune", help="Delete older records.")
        prune.add_argument("--older-than", metavar="AGE", required=True, help="Such as 90d.")
        text = 'Set the outcome of older "started" calls to "unknown".'
        reap = does.add_parser("reap", help=text)
        text = "Longer than any call takes, such as 10m (default: 1h)."
        reap.add_argument("--older-than", metavar="AGE", default="1h", help=text)
        lost = does.add_parser(
            "restore", help="Write the lost records from a log, unless they exist."
        )
        lost.add_argument(
            "log",
            nargs="?",
            help="A file with lines of the logger mcp_bridge.records.lost (default: stdin).",
        )

    def handle(self, *, does: str, **options: str) -> None:
        if does != "restore":
            self._forget(does, options["older_than"])
        elif options["log"] is None:
            self._restore(sys.stdin)
        else:
            try:
                with open(options["log"], encoding="utf-8", errors="replace") as lines:
                    self._restore(lines)
            except OSError as error:
                raise CommandError(f"The log cannot be read: {error}") from error

    def _restore(self, lines: Iterable[str]) -> None:
        count = others = failed = 0
        for number, line in enumerate(lines, 1):
            try:
                restore(line)
                count += 1
            except DatabaseError as error:
                self.stderr.write(f"Line {number}: {error}")
                failed += 1
            except ValueError:
                others += 1
        self.stdout.write(
            f"{count} records restored; {others} lines without a record signed by this site."
        )
        if failed:
            raise CommandError(
                f"{failed} records could not be written. Run the command again with the same log; "
                "existing records are not duplicated."
            )

    def _forget(self, does: str, older_than: str) -> None:
        """Delete or settle older records."""
        before = timezone.now() - duration(older_than)
        flush()
        rows = ToolCallRecord.objects.using(router.db_for_write(ToolCallRecord))
        old = rows.filter(started_at__lt=before)
        if does == "reap":
            count = old.filter(outcome=Outcome.STARTED).update(outcome=Outcome.UNKNOWN)
            self.stdout.write(f'{count} started before {before:%Y-%m-%d %H:%M} set to "unknown".')
            return
        records = _delete(old)
        calls = _delete(PendingCall.settled(before, using=router.db_for_write(PendingCall)))
        states = UsedState.forget(using=router.db_for_write(UsedState))
        expired = f"{states} used answers"
        # The app is optional.
        if apps.is_installed("mcp_bridge.tasks"):
            tasks: Any = apps.get_model("mcp_bridge_tasks", "McpTask")
            count = _delete(tasks.rows().filter(expires_at__lte=timezone.now()))
            expired += f" and {count} tasks"
        self.stdout.write(
            f"{records} records and {calls} decided calls from before {before:%Y-%m-%d %H:%M} "
            f"deleted, and {expired} that have expired."
        )


def _delete(rows: QuerySet[Model]) -> int:
    """Delete the rows in batches; return how many there were."""
    count = 0
    while keys := list(rows.order_by("pk").values_list("pk", flat=True)[:_AT_ONCE]):
        count += rows.filter(pk__range=(keys[0], keys[-1])).delete()[0]
    return count
