"""The remote servers as the admin shows them: the state of their tools, and their last calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from math import ceil
from statistics import median
from typing import Final, NamedTuple

from django.db.models import Count
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

from mcp_bridge.features import Key, Tool
from mcp_bridge.models import ToolCallRecord, ToolSetting
from mcp_bridge.records.rows import flush
from mcp_bridge.registry.registry import Snapshot, registry
from mcp_bridge.registry.tool_status import ToolStatus, read_settings
from mcp_bridge.remote.models import RemoteServer, RemoteTool

DAY: Final = timedelta(days=1)
# The latest calls whose durations are compared.
MOST_CALLS: Final = 1_000
# The states that lists count, with their texts.
CANDIDATE, LEFT_OUT, GONE = "candidate", "left_out", "gone"
# The classes of statuses that are not numbers.
_CLASSES: Final = {"error": gettext_lazy("no response"), "other": gettext_lazy("another status")}


class ToolState(NamedTuple):
    """
    A tool of a remote server, with its state as a word and as a text.

    ``setting`` is its row in Tools, None if it was never enabled.
    """

    tool: RemoteTool
    state: str
    text: str
    setting: ToolSetting | None = None


def tool_states(server: RemoteServer, tools: Iterable[RemoteTool]) -> list[ToolState]:
    """Return the states of tools of one server."""
    found, settings = registry.discovered, read_settings()
    return [_state(server, tool, found, settings) for tool in tools]


def _state(
    server: RemoteServer, tool: RemoteTool, found: Snapshot, settings: Mapping[Key, ToolSetting]
) -> ToolState:
    if tool.gone:
        return ToolState(tool, GONE, gettext("gone: the server no longer offers it"))
    if tool.reason or tool.name is None:
        return ToolState(tool, LEFT_OUT, tool.reason)
    if not server.enabled:
        return ToolState(tool, "disabled", gettext("disabled, like its server"))
    key = (Tool.kind, tool.name)
    own = found.tools.get(tool.name)
    if own is not None and not own.is_foreign:
        text = gettext("another tool of this site has its name here")
        return ToolState(tool, LEFT_OUT, text)
    if tool.name not in found.candidates:
        text = gettext("not offered: manage.py check and the log of this site have the reason")
        return ToolState(tool, LEFT_OUT, text)
    setting = settings.get(key)
    if setting is None or not setting.chosen:
        return ToolState(tool, CANDIDATE, gettext("candidate"))
    status = registry.statuses.get(key, ToolStatus.DISABLED)
    if tool.name in registry.unbuilt:
        status = ToolStatus.UNBUILT
    return ToolState(tool, status.value, str(status.label), setting)


def counts(servers: Iterable[RemoteServer]) -> dict[int, Counter[str]]:
    """Return the number of tools by state for the key of each server."""
    by_key = {server.pk: server for server in servers}
    counted = {key: Counter[str]() for key in by_key}
    found, settings = registry.discovered, read_settings()
    tools = RemoteTool.objects.filter(server__in=by_key, gone=False).defer("definition")
    for tool in tools.order_by():
        counted[tool.server_id][_state(by_key[tool.server_id], tool, found, settings).state] += 1
    return counted


class Health(NamedTuple):
    """
    The calls of a server in the last day: their number, and that of each class of status.

    ``typical`` and ``slow`` are the median and the 95th percentile of their durations in
    milliseconds, None without calls.
    """

    calls: int
    classes: list[tuple[str, int]]
    typical: float | None
    slow: float | None


def health(server: RemoteServer) -> Health:
    """Return what the records of the last day show of a server."""
    flush()
    since = timezone.now() - DAY
    rows = ToolCallRecord.objects.filter(upstream=server.slug, started_at__gte=since)
    counted = dict(rows.values_list("upstream_status").annotate(calls=Count("pk")).order_by())
    latest = rows.values_list("duration_ms", flat=True)
    durations = sorted(each for each in latest[:MOST_CALLS] if each is not None)
    return Health(
        calls=sum(counted.values()),
        classes=[(str(_CLASSES.get(name, name)), counted[name]) for name in sorted(counted)],
        typical=median(durations) if durations else None,
        slow=durations[ceil(len(durations) * 0.95) - 1] if durations else None,
    )
