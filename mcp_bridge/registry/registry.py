"""The tools of the code, and those of them that are served under the administrators' settings."""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache, partial
from itertools import islice
from operator import attrgetter
from time import monotonic
from typing import NamedTuple

from django.conf import settings
from django.core import checks
from django.db import DatabaseError, connections, router
from django.utils.translation import get_language

from mcp_bridge.conf import conf
from mcp_bridge.features import AccessRule, Tool
from mcp_bridge.models import Generation, ToolSetting
from mcp_bridge.protocol import LATEST, Revision
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.registry import tool_status
from mcp_bridge.registry.candidates import EFFORT, NO_CANDIDATES, Candidates, Chosen, unread
from mcp_bridge.registry.definitions import sent_definition, tokens_of
from mcp_bridge.registry.discovery import read_sources
from mcp_bridge.registry.listing import Page, PageCache, cut
from mcp_bridge.registry.tool_status import ToolStatus
from mcp_bridge.registry.toolsets import DEFAULT, members


class Snapshot:
    """
    The tools of one moment by name, in the order of their names. It never changes.

    ``messages`` are those of the sources on tools that are left out or could be better,
    ``candidates`` what an administrator may switch on; ``has_public`` is true if an anonymous
    caller may use one of the tools. ``toolset`` is the name of the toolset whose tools these are,
    or None where they are all there are.
    """

    toolset: str | None = None

    def __init__(
        self,
        tools: Iterable[Tool],
        messages: Iterable[checks.CheckMessage] = (),
        candidates: Candidates = NO_CANDIDATES,
    ) -> None:
        self.candidates = candidates
        self.tools = {tool.name: tool for tool in sorted(tools, key=attrgetter("name"))}
        self.messages = tuple(messages)
        self.has_public = any(tool.access.public for tool in self)
        self._ordered = tuple(self.tools.values())
        # Any text that is no str may be a lazy translation.
        self._translated = frozenset(
            tool
            for tool in self
            if not (isinstance(tool.title, str | None) and isinstance(tool.description, str))
        )
        # JSON by tool and revision; of tools with lazy texts also by language, and not of every
        # language that clients ask for. All of it goes with the snapshot.
        self._definition = lru_cache(maxsize=None)(_definition)
        self._translation = lru_cache(maxsize=16 * len(self._translated))(_definition)
        # A tool of each rule, by which all tools with the rule are decided; None where a rule asks
        # code of the site, which is run for the tools of one page alone.
        rules = {tool.access: tool for tool in reversed(self._ordered)}
        is_asked = any(rule.predicate is not None for rule in rules)
        self.by_rule = None if is_asked else tuple(rules.values())
        self._pages = PageCache()
        self._toolsets: dict[str, Snapshot] = {}

    @cached_property
    def stand_in(self) -> Tool | None:
        """The tool that is asked about in the place of one that is not there, if there is any."""
        # One that takes the work of most, and runs no code of the site's own.
        rules = {tool.access: tool for tool in reversed(self._ordered)}
        return max(
            rules.values(),
            key=lambda tool: (tool.access.predicate is None, bool(tool.access.permissions)),
            default=None,
        )

    @cached_property
    def asks_of(self) -> frozenset[str]:
        """What rules ask of a caller that takes a query: "groups", "permissions"."""
        needs = {
            "groups": any(tool.access.groups is not None for tool in self),
            "permissions": any(tool.access.permissions for tool in self),
        }
        return frozenset(name for name, is_asked in needs.items() if is_asked)

    @property
    def is_still(self) -> bool:
        """Whether no code of the site is asked for the list that anybody sees."""
        return self.by_rule is not None

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools.values())

    def __len__(self) -> int:
        return len(self.tools)

    def of(self, toolset: str | None) -> Snapshot | None:
        """
        Return the tools of a toolset, made when they are first asked for; None for an unknown one.

        Without a name they are those of DEFAULT, or of no toolset where the setting has none of
        that name.
        """
        name = toolset or DEFAULT
        if name not in conf.toolsets:
            return None if toolset else self
        if name == self.toolset:
            return self
        found = self._toolsets.get(name)
        if found is None:
            found = Snapshot(members(conf.toolsets[name], self))
            found.toolset = name
            # Each definition is written once, and all pages are kept within one bound.
            found._definition, found._translation = self._definition, self._translation
            found._pages = self._pages
            self._toolsets[name] = found
        return found

    def lists(self) -> dict[str | None, Snapshot]:
        """Return what clients can list: each toolset, and all tools where there is no DEFAULT."""
        names: list[str | None] = [*conf.toolsets]
        found = {name: self.of(name) for name in (names if DEFAULT in names else [None, *names])}
        return {name: part for name, part in found.items() if part is not None}

    def following(self, name: str) -> Iterator[Tool]:
        """Return the tools that come after ``name``, whether or not a tool has that name."""
        return iter(self._ordered[bisect_right(self._ordered, name, key=attrgetter("name")) :])

    def page(
        self, rules: frozenset[AccessRule], position: str | int | None, revision: Revision
    ) -> Page:
        """
        Return the page after a name or an offset, of the tools that one of the rules opens.

        Pages are kept by what they depend on, and not by who asks.
        """
        language = get_language() if self._translated else None
        key = (self.toolset, rules, position, revision, language, conf.PAGE_SIZE, conf.PAGE_BYTES)
        page = self._pages.get(key)
        if page is None:
            start = self.following(position) if isinstance(position, str) else iter(self)
            visible = (tool for tool in start if tool.access in rules)
            skipped = position if isinstance(position, int) else 0
            page = cut(islice(visible, skipped, None), partial(self.written, revision=revision))
            # A client may send any cursor: kept are pages that begin where one of ours leads.
            is_ours = position is None or position in self.tools
            if is_ours:
                self._pages.put(key, page, len(rules))
        return page

    def written(self, tool: Tool, revision: Revision) -> bytes:
        """
        Return the definition of a tool at a revision as JSON text (MCP schema, ``Tool``).

        Lazy texts are in the active language.
        """
        if tool in self._translated:
            return self._translation(tool, revision, get_language())
        return self._definition(tool, revision)

    def tokens(self) -> int:
        """Return about how many tokens of a model the definitions of all tools take."""
        return sum(tokens_of(self.written(tool, LATEST)) for tool in self)


def _definition(tool: Tool, revision: Revision, language: str | None = None) -> bytes:
    # The language is part of a cache's key alone: lazy texts are written in the active one.
    return encode(sent_definition(tool, revision))


class _State(NamedTuple):
    """
    A snapshot, what it was made of, and when: too old where ``reason`` is not the registry's.

    ``chosen`` are the names of candidates that are switched on. ``generation`` is None where the
    settings must be read again in any case.
    """

    snapshot: Snapshot
    statuses: Mapping[str, ToolStatus]
    discovered: Snapshot
    reason: object
    generation: str | None = None
    # By monotonic(); without a database a state holds for ever.
    read_at: float = math.inf
    chosen: frozenset[str] = frozenset()


class Registry:
    """
    Holds the current snapshot.

    The administrators' settings are read again when their generation is another one: that is looked
    up by one thread at half of STATE_MAX_AGE, while the others go on with what they have, and by
    every thread for itself after STATE_MAX_AGE. No thread waits for another one's query, and no
    lock is held while the signal ``tools_changed`` is sent.
    """

    def __init__(self) -> None:
        # Taken again by the same thread where a module of the URLconf reads the registry.
        self._building = threading.RLock()
        # Nobody waits for these two: a thread that does not get them goes on without.
        self._refreshing = threading.Lock()
        self._approving = threading.Lock()
        self._of_code: Snapshot | None = None
        self._built_from: object = None
        # When the sources are read again, since a tool could not be made yet.
        self._build_again = math.inf
        self._state: _State | None = None
        # The tools of the code with those of candidates that are switched on, made of a Chosen.
        self._joined: tuple[Chosen, Snapshot] | None = None
        # The names of those, for which reason they were read, and until when they hold.
        self._chosen: tuple[frozenset[str], object, float] = frozenset(), None, 0
        # Another object after each reason to look again; a state that was read before is too old.
        self._reason = object()

    @property
    def snapshot(self) -> Snapshot:
        """Return the tools that are served. Raises DatabaseError if settings cannot be read."""
        # Read once: another thread may put another state there.
        state, now, max_age = self._state, monotonic(), conf.STATE_MAX_AGE
        if state is None or state.reason is not self._reason or now - state.read_at >= max_age:
            return self._read(state).snapshot
        if now - state.read_at >= max_age / 2 and self._refreshing.acquire(blocking=False):
            try:
                return self._read(state).snapshot
            finally:
                self._refreshing.release()
        return state.snapshot

    @property
    def fresh(self) -> Snapshot | None:
        """Return the tools that are served, where that is known without a look at the database."""
        state = self._state
        if state is None or state.reason is not self._reason:
            return None
        return state.snapshot if monotonic() - state.read_at < conf.STATE_MAX_AGE / 2 else None

    @property
    def discovered(self) -> Snapshot:
        """
        Return the tools of the code and of candidates that are switched on, served or not.

        They are read on first use; which candidates are switched on, of a site that has some, is
        looked up again with each change, and once a second.
        """
        of_code = self._read_sources()
        if not of_code.candidates or not has_database():
            return of_code
        (names, reason, until), current = self._chosen, self._reason
        if reason is not current or monotonic() >= until:
            try:
                names = self._keep_chosen(tool_status.read_chosen(), current)
            except DatabaseError as error:
                messages = (*of_code.messages, unread(error))
                return Snapshot(of_code, messages, of_code.candidates)
        return self._join(of_code, names)

    @property
    def known(self) -> Snapshot | None:
        """Return the same as of the snapshot read last, without a look at the database."""
        return None if self._state is None else self._state.discovered

    def _read_sources(self) -> Snapshot:
        """Return the tools of the code, with the candidates, which are read on first use."""
        with self._building:
            sources = (
                *(settings.ROOT_URLCONF, conf.sources, conf.TOOL_NAME_STYLE),
                *(conf.EXPOSE, conf.TOOLSETS),
            )
            # Only tests change these while a process runs.
            known, began = self._of_code, monotonic()
            if known is None or self._built_from != sources or began >= self._build_again:
                found = read_sources()
                self._built_from, self._of_code = sources, (known := Snapshot(*found))
                again = max(conf.STATE_MAX_AGE, (monotonic() - began) / EFFORT)
                self._build_again = monotonic() + again if found.waits else math.inf
            return known

    def _keep_chosen(self, names: frozenset[str], reason: object) -> frozenset[str]:
        self._chosen = names, reason, monotonic() + max(1, conf.STATE_MAX_AGE)
        return names

    def _join(self, of_code: Snapshot, names: frozenset[str]) -> Snapshot:
        """Return the tools of the code with those of the named candidates, if there are any."""
        if not of_code.candidates:
            return of_code
        chosen = of_code.candidates.chosen(names)
        if chosen == Chosen():
            return of_code
        joined = self._joined
        if joined is None or joined[0] is not chosen:
            messages = (*of_code.messages, *chosen.messages)
            tools = (*of_code, *chosen.tools)
            self._joined = joined = chosen, Snapshot(tools, messages, of_code.candidates)
        return joined[1]

    @property
    def statuses(self) -> Mapping[str, ToolStatus]:
        """Return the status by name of each tool of the code, as of the snapshot read last."""
        return {} if self._state is None else self._state.statuses

    def forget(self) -> None:
        """Have the next use look for another generation of the administrators' settings."""
        self._reason = object()

    def settings_changed(self, *, setting: str = "MCP_BRIDGE", **kwargs: object) -> None:
        """Have the next use read the administrators' settings again. Receives signals."""
        # A receiver of tools_changed may have read them after the new generation was written and
        # before the change itself was, so that their generation proves nothing.
        if setting in ("MCP_BRIDGE", "ROOT_URLCONF"):
            if self._state is not None:
                self._state = self._state._replace(generation=None)
            self.forget()

    def reload(self) -> None:
        """Have the next use read the sources again."""
        # With the lock: a build that has begun may be of the sources as they were.
        with self._building:
            self._of_code = None
        self.forget()

    def build_now(self) -> None:
        """Read the sources before the first request; no connection to a database stays open."""
        before = {each.alias for each in connections.all() if each.connection is not None}
        _ = self.discovered
        for each in connections.all():
            # Processes that are forked from this one must not share it.
            if each.connection is not None and each.alias not in before:
                each.close()

    def write_rows(self, *, using: str, plan: object = None, **kwargs: object) -> None:
        """
        Write a row for each tool; an error is logged. Receives ``post_migrate``.

        While migrations wait no tool is made, since the types of a tool may read and write tables.
        """
        if using != router.db_for_write(ToolSetting):
            return
        # The command flush migrates nothing, and has no plan.
        if plan is None or is_migrated(using):
            try:
                if self._build_again < math.inf:
                    self.reload()
                tool_status.sync_tool_settings(self.discovered)
            except Exception:
                tool_status.logger.exception(
                    "The tools could not be written down; the admin does it when it is opened"
                )

    def _read(self, known: _State | None) -> _State:
        """Read the state that holds now, given the one that is known, and keep it."""
        reason, now = self._reason, monotonic()
        # Before the tools: making one may write rows that a migration which waits cannot stand, and
        # this raises where the tables of this app are not there yet.
        generation = Generation.current() if has_database() else None
        of_code = self._read_sources()
        if generation is None:
            statuses = dict.fromkeys(of_code.tools, ToolStatus.SERVED)
            self._state = state = _State(of_code, statuses, of_code, reason)
            return state
        if (
            known
            and known.generation == generation
            and self._join(of_code, known.chosen) is known.discovered
        ):
            self._state = state = known._replace(reason=reason, read_at=now)
            return state
        found = tool_status.read_settings()
        chosen = self._keep_chosen(tool_status.chosen(found), reason)
        discovered = self._join(of_code, chosen)
        statuses = {
            tool.name: tool_status.status_of(tool, found.get(tool.name)) for tool in discovered
        }
        snapshot = Snapshot(tool_status.served_tools(discovered, found, statuses))
        self._state = state = _State(
            snapshot, statuses, discovered, reason, generation, now, chosen
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


def is_migrated(alias: str) -> bool:
    """Return whether a database has the tables of this app, and no migration waits for it."""
    # After a migration backwards, and before a first one of a site without migrations, there are
    # no tables.
    if ToolSetting._meta.db_table not in connections[alias].introspection.table_names():
        return False
    return not unapplied(alias)


def unapplied(alias: str, app_label: str | None = None) -> list[str]:
    """Return the migrations that wait for a database, of all apps or one, as "app.name"."""
    # Imported here, since only commands need it.
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connections[alias])
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes(app_label))
    return [f"{each.app_label}.{each.name}" for each, _ in plan]


registry = Registry()
