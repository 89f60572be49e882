"""The features of the code, and the served ones under the administrators' settings."""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache, partial
from itertools import islice
from operator import attrgetter
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from django.conf import settings
from django.core import checks
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DatabaseError, connections, router
from django.utils.translation import get_language

from mcp_bridge.conf import conf
from mcp_bridge.features import AccessRule, AnyFeature, Feature, Key, Tool
from mcp_bridge.models import Generation, ToolSetting
from mcp_bridge.protocol import LATEST, Revision
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.registry import tool_status
from mcp_bridge.registry.definitions import sent_definition, tokens_of
from mcp_bridge.registry.discovery import Reading, combine, read_source
from mcp_bridge.registry.listing import DEFAULT, Page, PageCache, cut, members
from mcp_bridge.registry.tool_status import ToolStatus
from mcp_bridge.sources.base import NotYet, first_line
from mcp_bridge.sources.secrets import refuse_secrets

if TYPE_CHECKING:
    from mcp_bridge.features.resources import Resource

# The largest share of time spent on retries of features that cannot be built yet.
EFFORT: Final = 1 / 20

# The sort key of features, in C since lists are long.
_KEY: Final = attrgetter("kind", "name")


class Snapshot:
    """
    An immutable set of features, ordered by kind and name.

    ``tools`` are the tools by name. ``messages`` are the sources' messages about omitted or
    improvable features; ``candidates`` the unmarked tools, by name, that an administrator may
    enable. ``has_public`` is true if an anonymous caller may use one of the features. ``toolset``
    is the name of the toolset, or None for all features.
    """

    toolset: str | None = None

    def __init__(
        self,
        features: Iterable[Feature],
        messages: Iterable[checks.CheckMessage] = (),
        candidates: Mapping[str, Tool] = MappingProxyType({}),
    ) -> None:
        self.candidates = candidates
        self._ordered = tuple(sorted(features, key=_KEY))
        self._by_key: dict[Key, Feature] = {each.key: each for each in self}
        tools = (each for each in self if each.kind == Tool.kind)
        self.tools = {each.name: each for each in cast("Iterable[Tool]", tools)}
        self.messages = tuple(messages)
        self.has_public = any(each.access.public for each in self)
        # Any text that is not a str may be a lazy translation.
        self._translated = frozenset(
            each
            for each in self
            if not (isinstance(each.title, str | None) and isinstance(each.description, str))
        )
        # JSON by feature and revision; for lazy texts also by language, of which a bounded number
        # is kept. The caches end with the snapshot.
        self._definition = lru_cache(maxsize=None)(_definition)
        self._translation = lru_cache(maxsize=16 * len(self._translated))(_definition)
        # One feature for each rule, which decides for all with that rule; None if a rule calls the
        # site's code, which is run only for the features of one page.
        rules = {each.access: each for each in reversed(self._ordered)}
        is_asked = any(rule.predicate is not None for rule in rules)
        self.by_rule = None if is_asked else tuple(rules.values())
        self._pages = PageCache()
        self._toolsets: dict[str, Snapshot] = {}
        self._stand_ins: dict[str, Feature | None] = {}

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of its features, and further lists that have some."""
        found = {name for each in self for name in (each.kind, *each.entries)}
        # Calls that wait for a person may be tasks as well.
        is_long = any(each.options.task or each.options.confirm for each in self.tools.values())
        return frozenset(found | {"task"} if is_long else found)

    @cached_property
    def by_label(self) -> dict[str, Feature]:
        """Its features of all kinds by label, the tools first."""
        found = sorted(self, key=lambda each: (each.kind != Tool.kind, each.key))
        return {each.label: each for each in found}

    def stand_in(self, kind: str) -> Feature | None:
        """Return the feature whose access is checked in place of an unknown one, if any."""
        if kind not in self._stand_ins:
            # Its rule is the most common one that does not run the site's code.
            rules = {each.access: each for each in reversed([*self.following(kind)])}
            self._stand_ins[kind] = max(
                rules.values(),
                key=lambda each: (each.access.predicate is None, bool(each.access.permissions)),
                default=None,
            )
        return self._stand_ins[kind]

    @cached_property
    def resources(self) -> dict[str, Resource]:
        """The resources by URI or template."""
        found = cast("list[Resource]", [*self.following("resource")])
        return {each.uri.text: each for each in found}

    @cached_property
    def _templates(self) -> list[Resource]:
        return [each for each in self.resources.values() if each.uri.variables]

    def called(self, kind: str, name: str) -> tuple[Feature | None, dict[str, str]]:
        """Return the feature of a kind with a name or URI, and the variables in the URI."""
        if kind != "resource":
            return self._by_key.get((kind, name)), {}
        found = self.resources.get(name)
        if found is not None and not found.uri.variables:
            return found, {}
        for each in self._templates:
            if (values := each.uri.match(name)) is not None:
                return each, values
        return None, {}

    @cached_property
    def asks_of(self) -> frozenset[str]:
        """The requirements of rules that need a query: "groups", "permissions"."""
        of_groups = {"groups" for each in self if each.access.groups is not None}
        return frozenset(of_groups | {"permissions" for each in self if each.access.permissions})

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._ordered)

    def __len__(self) -> int:
        return len(self._ordered)

    def of(self, toolset: str | None) -> Snapshot | None:
        """Return the features of a toolset (None: of DEFAULT, or all); None for an unknown one."""
        name = toolset or DEFAULT
        if name not in conf.toolsets:
            return None if toolset else self
        if name == self.toolset:
            return self
        found = self._toolsets.get(name)
        if found is None:
            found = Snapshot(members(conf.toolsets[name], self))
            found.toolset = name
            # Share the caches: definitions are serialised once, and pages have one limit.
            found._definition, found._translation = self._definition, self._translation
            found._pages = self._pages
            self._toolsets[name] = found
        return found

    def lists(self) -> dict[str | None, Snapshot]:
        """Return the lists for clients: each toolset, and all tools if DEFAULT is not defined."""
        names: list[str | None] = [*conf.toolsets]
        found = {name: self.of(name) for name in (names if DEFAULT in names else [None, *names])}
        return {name: part for name, part in found.items() if part is not None}

    def following(self, kind: str, name: str = "", listing: str | None = None) -> Iterator[Feature]:
        """Return the features of a kind, and of a list, after ``name``, which need not exist."""
        begin = bisect_right(self._ordered, (kind, name), key=_KEY)
        end = bisect_right(self._ordered, (f"{kind}\0", ""), key=_KEY)
        found = self._ordered[begin:end]
        if listing is not None:
            found = tuple(e for e in found if e.listing == listing or listing in e.entries)
        return iter(found)

    def page(
        self,
        kind: str,
        rules: frozenset[AccessRule],
        position: str | int | None,
        revision: Revision,
        listing: str | None = None,
    ) -> Page:
        """
        Return the page after a name or offset, of a kind's features with one of the rules.

        ``listing`` is the list that they are in, if features of the kind are in several.
        """
        language = get_language() if self._translated else None
        bounds = conf.PAGE_SIZE, conf.PAGE_BYTES
        # The key has everything that a page depends on; the caller is not part of it.
        key = (self.toolset, kind, listing, rules, position, revision, language, bounds)
        page = self._pages.get(key)
        if page is None:
            start = self.following(kind, position if isinstance(position, str) else "", listing)
            visible = (each for each in start if each.access in rules)
            skipped = position if isinstance(position, int) else 0
            write = partial(self.written, revision=revision, listing=listing)
            page = cut(islice(visible, skipped, None), write)
            # Clients may send any cursor: cache only pages that begin after an existing feature.
            if position is None or (kind, position) in self._by_key:
                self._pages.put(key, page, len(rules))
        return page

    def written(self, feature: Feature, revision: Revision, listing: str | None = None) -> bytes:
        """Return a feature's entry in a list as JSON text, in the active language."""
        if listing is not None and listing in feature.entries:
            return feature.entries[listing]
        if feature in self._translated:
            return self._translation(feature, revision, get_language())
        return self._definition(feature, revision)

    def tokens(self) -> int:
        """Return the approximate tokens of the definitions of all tools."""
        return sum(tokens_of(self.written(tool, LATEST)) for tool in self.tools.values())


def _definition(feature: Feature, revision: Revision, language: str | None = None) -> bytes:
    # ``language`` is only for the cache key: lazy texts use the active language.
    return encode(sent_definition(feature, revision))


class _State(NamedTuple):
    """A snapshot with its inputs and time; outdated if ``reason`` is not the registry's."""

    snapshot: Snapshot
    statuses: Mapping[Key, ToolStatus]
    # The features of ``of_code`` and the enabled candidates that could be built.
    discovered: Snapshot
    of_code: Snapshot
    reason: object
    # None if the settings must be read again in any case.
    generations: Mapping[int, str] | None = None
    # By monotonic(); without a database, a state never expires.
    read_at: float = math.inf
    unbuilt: frozenset[str] = frozenset()
    # When the unbuilt ones are retried.
    again: float = math.inf
    # Features to approve as new ones.
    first_seen: tuple[Feature, ...] = ()


class Registry:
    """
    The holder of the current snapshot.

    The administrators' settings are read again when their generation changes. One thread checks
    that at half of STATE_MAX_AGE, and every thread after STATE_MAX_AGE. Threads never wait for
    another thread's query, and signals are sent without a lock.
    """

    def __init__(self) -> None:
        # Reentrant, since a module of the URLconf may read the registry.
        self._building = threading.RLock()
        # Never waited for: a thread that fails to acquire one carries on.
        self._refreshing = threading.Lock()
        self._approving = threading.Lock()
        self._of_code: Snapshot | None = None
        self._readings: dict[str, Reading] = {}
        self._built_from: object = None
        # When the sources are read again because a tool could not be built yet.
        self._build_again = math.inf
        self._state: _State | None = None
        # Replaced to invalidate the state; states read before are outdated.
        self._reason = object()
        # Why candidates could not be built on the last attempt, by name.
        self.errors: dict[str, str] = {}

    @property
    def snapshot(self) -> Snapshot:
        """Return the served features. Raises DatabaseError if settings cannot be read."""
        state = self._current(conf.STATE_MAX_AGE)
        # Only now, since signal receivers may read the snapshot. One thread approves; until it is
        # done, others do not see the new tools.
        if state.first_seen and self._approving.acquire(blocking=False):
            try:
                self._state = state._replace(first_seen=())
                # Later changes can be detected only against a recorded definition.
                tool_status.sync_tool_settings(state.first_seen)
            except DatabaseError:
                names = ", ".join(each.name for each in state.first_seen)
                text = "These tools are withheld: their rows cannot be written: %s"
                tool_status.logger.exception(text, names)
            else:
                state = self._read(None)
            finally:
                self._approving.release()
        return state.snapshot

    def _current(self, max_age: float) -> _State:
        # Read once, since another thread may replace it.
        state, now = self._state, monotonic()
        if state is None or state.reason is not self._reason or now - state.read_at >= max_age:
            return self._read(state)
        if now - state.read_at >= max_age / 2 and self._refreshing.acquire(blocking=False):
            try:
                return self._read(state)
            finally:
                self._refreshing.release()
        return state

    @property
    def fresh(self) -> Snapshot | None:
        """Return the served features if known without a query, else None."""
        state = self._state
        if state is None or state.reason is not self._reason or state.first_seen:
            return None
        return state.snapshot if monotonic() - state.read_at < conf.STATE_MAX_AGE / 2 else None

    @property
    def discovered(self) -> Snapshot:
        """Return the tools of the code, served or not, and the enabled candidates."""
        # Settings are needed, and read, only if the site has candidates or sources that change.
        of_code = self._read_sources()
        may_change = any(each.may_change for each in self._readings.values())
        if not (of_code.candidates or may_change) or not has_database():
            return of_code
        try:
            # An admin page calls this for each row.
            return self._current(max(1, conf.STATE_MAX_AGE)).discovered
        except (DatabaseError, SynchronousOnlyOperation) as error:
            # The test client may ask on an event loop.
            unread = NotYet(
                f"The enabled candidates cannot be read: {first_line(error)}.",
                hint="Run manage.py migrate; running processes retry automatically.",
                id="mcp_bridge.W094",
            )
            return Snapshot(of_code, (*of_code.messages, unread), of_code.candidates)

    @property
    def known(self) -> Snapshot | None:
        """Return the ``discovered`` of the last state, without a query."""
        return None if self._state is None else self._state.discovered

    @property
    def unbuilt(self) -> frozenset[str]:
        """Return the names of enabled candidates that cannot be built, as of the last state."""
        return frozenset() if self._state is None else self._state.unbuilt

    def build(self, tool: AnyFeature) -> AnyFeature:
        """Return the complete tool. Raises ValueError with the reason if it cannot be built."""
        try:
            made = tool.built
            # Not again at each change of a setting.
            is_known = self.known is not None and self.known.tools.get(made.name) is made
            if not (tool.is_marked or tool.is_foreign or is_known):
                refuse_secrets(made.schemas.values())
        except Exception as exception:
            # The code of views and types may raise any exception.
            self.errors[tool.name] = first_line(exception)
            raise ValueError(self.errors[tool.name]) from exception
        self.errors.pop(tool.name, None)
        return made

    def _read_sources(self, generations: Mapping[int, str] | None = None) -> Snapshot:
        """Return the tools of the code, read on first use and when their sources change."""
        with self._building:
            built_from = (
                *(settings.ROOT_URLCONF, conf.sources, conf.TOOL_NAME_STYLE),
                *(conf.EXPOSE, conf.TOOLSETS),
            )
            # Only tests change these in a running process.
            is_other, began = self._built_from != built_from, monotonic()
            held = {
                alias: reading
                for alias, reading in self._readings.items()
                if not is_other
                and reading.holds(generations)
                and not (began >= self._build_again and reading.waits)
            }
            if is_other or self._of_code is None or len(held) < len(conf.sources):
                self._readings = {
                    alias: held.get(alias) or read_source(alias, generations)
                    for alias in conf.sources
                }
                self._of_code = Snapshot(*combine(self._readings))
                self.errors.clear()
                self._built_from = built_from
                waits = any(each.waits for each in self._readings.values())
                again = max(conf.STATE_MAX_AGE, (monotonic() - began) / EFFORT)
                self._build_again = monotonic() + again if waits else math.inf
            return self._of_code

    @property
    def statuses(self) -> Mapping[Key, ToolStatus]:
        """Return the status of each feature of the code by key, as of the last state."""
        return {} if self._state is None else self._state.statuses

    def forget(self) -> None:
        """Make the next use check the generation of the administrators' settings."""
        self._reason = object()

    def settings_changed(self, *, setting: str = "MCP_BRIDGE", **kwargs: object) -> None:
        """Make the next use read the administrators' settings again. Receives signals."""
        # A receiver of tools_changed may have read the settings between the writes of the new
        # generation and of the change, so comparing generations is not enough.
        if setting in ("MCP_BRIDGE", "ROOT_URLCONF"):
            if self._state is not None:
                self._state = self._state._replace(generations=None)
            self.forget()

    def reload(self) -> None:
        """Make the next use read the sources again."""
        # With the lock, since a running build may use the old sources.
        with self._building:
            self._of_code, self._readings = None, {}
        self.forget()

    def build_now(self) -> None:
        """Read the sources before the first request; leave no database connection open."""
        before = {each.alias for each in connections.all() if each.connection is not None}
        _ = self.discovered
        for each in connections.all():
            # Forked processes must not share it.
            if each.connection is not None and each.alias not in before:
                each.close()

    def write_rows(self, *, using: str, plan: object = None, **kwargs: object) -> None:
        """Write a row for each tool; an error is logged. Receives ``post_migrate``."""
        # Tools are not built while migrations are pending, since their types may use tables. The
        # command flush does not migrate and sends no plan.
        if using != router.db_for_write(ToolSetting) or not (plan is None or is_migrated(using)):
            return
        try:
            if self._build_again < math.inf:
                self.reload()
            tool_status.sync_tool_settings(self.discovered)
        except Exception:
            tool_status.logger.exception(
                "The rows of the tools could not be written; opening the admin writes them"
            )

    def _read(self, known: _State | None) -> _State:
        """Read and store the current state, given the known one."""
        reason, now = self._reason, monotonic()
        # Before the tools: building one may write rows that conflict with a pending migration, and
        # this raises if the tables of this app do not exist yet.
        generations = Generation.current() if has_database() else None
        of_code = self._read_sources(generations)
        if generations is None:
            statuses = {each.key: ToolStatus.SERVED for each in of_code}
            self._state = state = _State(of_code, statuses, of_code, of_code, reason)
            return state
        if known and (known.generations != generations or known.of_code is not of_code):
            known = None
        if known and now < known.again:
            self._state = state = known._replace(reason=reason, read_at=now)
            return state
        found = tool_status.read_settings()
        discovered, unbuilt = self._with_switched_on(of_code, found)
        again = monotonic() + max(1, conf.STATE_MAX_AGE, (monotonic() - now) / EFFORT)
        again = again if unbuilt else math.inf
        if known and known.unbuilt == unbuilt:
            self._state = state = known._replace(reason=reason, read_at=now, again=again)
            return state
        statuses = {
            each.key: tool_status.status_of(each, found.get(each.key)) for each in discovered
        }
        new = (each for each in discovered if tool_status.is_first_seen(each, found.get(each.key)))
        self._state = state = _State(
            snapshot=Snapshot(tool_status.served(discovered, found, statuses)),
            statuses=statuses,
            discovered=discovered,
            of_code=of_code,
            reason=reason,
            generations=generations,
            read_at=now,
            unbuilt=unbuilt,
            again=again,
            first_seen=() if conf.NEW_TOOLS == "disabled" else tuple(new),
        )
        return state

    def _with_switched_on(
        self, of_code: Snapshot, found: Mapping[Key, ToolSetting]
    ) -> tuple[Snapshot, frozenset[str]]:
        """Return the tools of the code with enabled candidates, and the names of unbuilt ones."""
        names = {
            each.name
            for each in found.values()
            if each.kind == Tool.kind and tool_status.is_switched_on(each)
        }
        features, messages, unbuilt = list(of_code), list(of_code.messages), set[str]()
        for name in sorted(names - of_code.tools.keys()) if of_code.candidates else ():
            tool = of_code.candidates.get(name)
            if tool is None:
                message = checks.Warning(
                    f"The candidate {name!r} is enabled, but no source offers it now, so it "
                    "is not served.",
                    hint="Restore its code or server, or delete it in the admin, under Tools.",
                    id="mcp_bridge.W090",
                )
                messages.append(message)
                continue
            try:
                features.append(self.build(tool))
            except ValueError as reason:
                unbuilt.add(name)
                place = f" ({tool.source})" if tool.source else ""
                message = NotYet(
                    f"The candidate {name!r}{place} is enabled, but not served, since it cannot be "
                    f"built: {reason}.",
                    hint="If tables or rows are missing, run manage.py migrate; running processes "
                    "retry automatically. Otherwise fix its code, or disable the candidate in the "
                    "admin.",
                    id="mcp_bridge.W092",
                )
                messages.append(message)
        if features == list(of_code) and messages == list(of_code.messages):
            return of_code, frozenset()
        return Snapshot(features, messages, of_code.candidates), frozenset(unbuilt)


@cache
def has_database() -> bool:
    """Return whether the site has a database; without one, tools are served as in the code."""
    return connections[router.db_for_write(ToolSetting)].vendor != "unknown"


def is_migrated(alias: str) -> bool:
    """Return whether a database has the tables of this app and no pending migrations."""
    # Tables are missing after a backwards migration, and before the first migrate of a site
    # without migrations.
    if ToolSetting._meta.db_table not in connections[alias].introspection.table_names():
        return False
    return not unapplied(alias)


def unapplied(alias: str) -> list[str]:
    """Return the pending migrations of a database, as "app.name"."""
    # Imported here, since only commands need it.
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connections[alias])
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{each.app_label}.{each.name}" for each, _ in plan]


registry = Registry()
