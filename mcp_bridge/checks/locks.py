"""A check of tools that keep everybody else from writing to SQLite (W016), by their records."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from django.core import checks
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.models import Count, Max
from django.utils import timezone

from mcp_bridge.calls.running import LONG, is_sqlite_file
from mcp_bridge.conf import DOCUMENTATION
from mcp_bridge.features import Tool
from mcp_bridge.models import ToolCallRecord

_RECENT: Final = timedelta(days=7)


def check_locks(tools: Iterator[Tool]) -> Iterator[checks.CheckMessage]:
    """Warn of tools that act and whose calls took long of late, in a transaction on SQLite."""
    if not is_sqlite_file(connections[DEFAULT_DB_ALIAS]):
        return
    locking = {
        tool.name: tool
        for tool in tools
        if not tool.is_read_only and DEFAULT_DB_ALIAS not in tool.non_atomic
    }
    records = ToolCallRecord.objects.using(router.db_for_read(ToolCallRecord)).filter(
        started_at__gte=timezone.now() - _RECENT,
        duration_ms__gte=LONG * 1000,
        tool__in=list(locking),
    )
    found = records.order_by().values("tool").annotate(most=Max("duration_ms"), calls=Count("pk"))
    for row in found.order_by("tool"):
        yield checks.Warning(
            f"The tool {row['tool']!r} ({locking[row['tool']].source}) took up to "
            f"{row['most'] / 1000:.1f} s in a transaction ({row['calls']} of its calls in the last "
            f"7 days took more than {LONG:g} s), in which nobody else can write to the SQLite "
            f"database {DEFAULT_DB_ALIAS!r}.",
            hint="Put it under django.db.transaction.non_atomic_requests and have it write in "
            f"short transactions of its own; see {DOCUMENTATION}tools.md.",
            id="mcp_bridge.W016",
        )
