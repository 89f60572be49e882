"""The tools of the code, and those of them that are served under the administrators' settings."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from time import monotonic

from django.conf import settings
from django.core import checks
from django.db import connections, router
from django.utils.module_loading import import_string

from mcp_bridge.conf import conf
from mcp_bridge.features import Tool
from mcp_bridge.models import Generation, ToolSetting
from mcp_bridge.registry import tool_status
from mcp_bridge.registry.snapshot import Snapshot
from mcp_bridge.registry.tool_status import ToolStatus
from mcp_bridge.sources.base import NotYet, Source, first_line

logger = logging.getLogger("mcp_bridge.approval")

# Where a tool cannot be made yet, reading the sources again takes no more than this part of time.
_EFFORT = 1 / 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """
    A snapshot, the settings and tools it was made of, and how long it holds.

    ``generation`` is None where the settings must be read again in any case. One thread looks for
    another generation from ``due`` on, every thread from ``until`` on, and at once where
    ``reason`` is not the registry's (both times are those of ``monotonic()``).
    """

    snapshot: Snapshot
    statuses: Mapping[str, ToolStatus]
    discovered: Snapshot
    reason: object
    generation: str | None = None
    due: float = math.inf
    until: float = math.inf


class Registry:
    """
    Holds the current snapshot.

    The sources are read on first use. So are the administrators' settings, and again when their
    generation is another one: that is looked up by one thread at half of STATE_MAX_AGE, while the
    others go on with what they have, and by every thread for itself after STATE_MAX_AGE. No thread
    waits for another one's query, and no lock is held while the signal ``tools_changed`` is sent.
    """

    def __init__(self) -> None:
        # Taken again by the same thread where a module of the URLconf reads the registry.
        self._building = threading.RLock()
        # Nobody waits for these two: a thread that does not get them goes on without.
        self._refreshing = threading.Lock()
        self._approving = threading.Lock()
        self._discovered: Snapshot | None = None
        self._built_from: object = None
        # When the sources are read again, since a tool could not be made yet.
        self._build_again = math.inf
        self._state: _State | None = None
        # Another object after each reason to look again; a state that was read before is too old.
        self._reason = object()

    @property
    def snapshot(self) -> Snapshot:
        """Return the tools that are served. Raises DatabaseError if settings cannot be read."""
        # Read once: another thread may put another state there.
        state, now = self._state, monotonic()
        if state is None or state.reason is not self._reason or now >= state.until:
            return self._read(state).snapshot
        if now >= state.due and self._refreshing.acquire(blocking=False):
            try:
                return self._read(state).snapshot
            finally:
                self._refreshing.release()
        return state.snapshot

    @property
    def discovered(self) -> Snapshot:
        """Return the tools of the code, served or not; they are read on first use."""
        with self._building:
            sources = settings.ROOT_URLCONF, conf.SOURCES, conf.TOOL_NAME_STYLE
            # Only tests change these while a process runs.
            known, began = self._discovered, monotonic()
            if known is None or self._built_from != sources or began >= self._build_again:
                self._built_from, self._discovered = sources, (known := build())
                again = max(conf.STATE_MAX_AGE, (monotonic() - began) / _EFFORT)
                waits = any(isinstance(each, NotYet) for each in known.messages)
                self._build_again = monotonic() + again if waits else math.inf
            return known

    @property
    def statuses(self) -> Mapping[str, ToolStatus]:
        """Return the status by name of each tool of the code, as of the snapshot read last."""
        return {} if self._state is None else self._state.statuses

    def forget(self) -> None:
        """Have the next use look for another generation of the administrators' settings."""
        self._reason = object()

    def settings_changed(self, *, setting: str = "MCP_BRIDGE", **kwargs: object) -> None:
        """
        Have the next use read the administrators' settings again, changed or not.

        Receives ``tools_changed``, and Django's ``setting_changed`` with the name of a ``setting``.
        """
        # A receiver of tools_changed may have read them after the new generation was written and
        # before the change itself was, so that their generation proves nothing.
        if setting in ("MCP_BRIDGE", "ROOT_URLCONF"):
            if self._state is not None:
                self._state = replace(self._state, generation=None)
            self.forget()

    def reload(self) -> None:
        """Have the next use read the sources again."""
        # With the lock: a build that has begun may be of the sources as they were.
        with self._building:
            self._discovered = None
        self.forget()

    def write_rows(self, *, using: str, **kwargs: object) -> None:
        """
        Write a row for each tool to the database that was migrated; an error is logged.

        Receives ``post_migrate``.
        """
        table = ToolSetting._meta.db_table
        if using != router.db_for_write(ToolSetting):
            return
        # After a migration backwards there is no table.
        if table in connections[using].introspection.table_names():
            try:
                if self._build_again < math.inf:
                    self.reload()
                tool_status.sync_tool_settings(self.discovered)
            except Exception:
                logger.exception(
                    "The tools could not be written down; the admin does it when it is opened"
                )

    def _read(self, known: _State | None) -> _State:
        """Read the state that holds now, given the one that is known, and keep it."""
        reason, now = self._reason, monotonic()
        due, until = now + conf.STATE_MAX_AGE / 2, now + conf.STATE_MAX_AGE
        discovered = self.discovered
        if not has_database():
            statuses = {tool.name: ToolStatus.SERVED for tool in discovered}
            self._state = state = _State(
                snapshot=discovered, statuses=statuses, discovered=discovered, reason=reason
            )
            return state
        generation = Generation.current()
        if known and known.discovered is discovered and known.generation == generation:
            self._state = state = replace(known, reason=reason, due=due, until=until)
            return state
        found = tool_status.read_settings()
        statuses = {
            tool.name: tool_status.status_of(tool, found.get(tool.name)) for tool in discovered
        }
        self._state = state = _State(
            snapshot=Snapshot(
                tool_status.served_tools(discovered, found, statuses), discovered.messages
            ),
            statuses=statuses,
            discovered=discovered,
            reason=reason,
            generation=generation,
            due=due,
            until=until,
        )
        # Only now, since receivers of the signal that is sent may read the snapshot. One thread
        # approves; for others that read meanwhile, the new tools are not there yet.
        if self._approving.acquire(blocking=False):
            try:
                if tool_status.approve_first_seen(discovered, found):
                    return self._read(state)
            finally:
                self._approving.release()
        return state


@cache
def has_database() -> bool:
    """Return whether the site has a database: without one, every tool is served as in the code."""
    return connections[router.db_for_write(ToolSetting)].vendor != "unknown"


def build() -> Snapshot:
    """Read every source of the setting SOURCES; an error in one is among the messages."""
    found: dict[str, list[Tool]] = {}
    messages: list[checks.CheckMessage] = []
    for alias in conf.SOURCES:
        source = load_source(alias, messages)
        if source is not None:
            for tool in source.tools():
                found.setdefault(tool.name, []).append(tool)
            messages += source.messages
    for name, tools in found.items():
        if len(tools) > 1:
            functions = " and ".join(
                f"{tool.function} ({tool.source})" if tool.function else tool.source
                for tool in tools
            )
            messages.append(
                checks.Error(
                    f"{len(tools)} procedures would be the tool {name!r}, so none of them is: "
                    f"{functions}.",
                    hint="Give one of them another name: mcp_tool(name=...), or a prefix in "
                    "SOURCES.",
                    id="mcp_bridge.E007",
                )
            )
    # Of two tools with one name neither is served: a caller could not know which it would get.
    return Snapshot((tools[0] for tools in found.values() if len(tools) == 1), messages)


def load_source(alias: str, messages: list[checks.CheckMessage]) -> Source | None:
    """Return the source of that alias, or None, with an error added to ``messages``."""
    config = conf.SOURCES[alias]
    try:
        backend = import_string(config["BACKEND"])
        source = backend(alias, config.get("OPTIONS", {}))
        if not isinstance(source, Source):
            raise TypeError(f"it makes a {type(source).__name__}, not a Source")
    except Exception as exception:
        messages.append(
            checks.Error(
                f"MCP_BRIDGE['SOURCES'][{alias!r}] cannot be used: {first_line(exception)}.",
                hint='Give {"BACKEND": dotted path, "OPTIONS": {...}} with the path of a subclass '
                "of mcp_bridge.sources.base.Source.",
                id="mcp_bridge.E003",
            )
        )
        return None
    return source


registry = Registry()
