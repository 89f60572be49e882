"""All tools at one moment, and what holds them."""

from __future__ import annotations

import hashlib
import math
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from time import monotonic

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.db import connections, router
from django.utils.module_loading import import_string

from mcp_bridge.conf import conf
from mcp_bridge.features.tools import Tool
from mcp_bridge.protocol import LATEST, Revision
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.registry import tool_status
from mcp_bridge.sources.base import Source, first_line


class Snapshot:
    """The tools of one moment, ordered by name. It never changes; a new moment is a new one."""

    def __init__(self, tools: Iterable[Tool], messages: Iterable[checks.CheckMessage] = ()) -> None:
        self._tools = {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
        self._ordered = tuple(self._tools.values())
        self._names = tuple(self._tools)
        # What the system checks say of tools that are left out or could be better.
        self.messages = tuple(messages)
        self.has_public = any(tool.access.public for tool in self._ordered)
        # JSON text that is written once, and forgotten with the snapshot.
        self._definition = lru_cache(maxsize=None)(_definition)
        self._array = lru_cache(maxsize=64)(self._written)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._ordered)

    def __len__(self) -> int:
        return len(self._ordered)

    def get(self, name: str) -> Tool | None:
        """The tool with that very name, or None."""
        return self._tools.get(name)

    def following(self, name: str) -> Iterator[Tool]:
        """The tools that come after ``name``, whether or not a tool has that name."""
        return iter(self._ordered[bisect_right(self._names, name) :])

    def definitions(
        self, tools: tuple[Tool, ...], revision: Revision, language: str | None
    ) -> bytes:
        """The JSON array of the tools' definitions at a revision, in the active language."""
        return self._array(tools, revision, language)

    def _written(self, tools: tuple[Tool, ...], revision: Revision, language: str | None) -> bytes:
        definitions = (self._definition(tool, revision, language) for tool in tools)
        return b"[" + b",".join(definitions) + b"]"

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 of all that a model sees: equal snapshots have equal fingerprints."""
        digest = hashlib.sha256()
        for tool in self._ordered:
            digest.update(encode(tool.definition(LATEST)))
        return digest.hexdigest()


def _definition(tool: Tool, revision: Revision, language: str | None) -> bytes:
    # The language is part of the key alone: titles and descriptions may be lazy translations.
    return encode(tool.definition(revision))


class Registry:
    """
    Holds the current snapshot: the tools of the code, as the site's owner has set them.

    The settings are read on first use and again where their generation is another one, which is
    asked for once in STATE_MAX_AGE seconds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._discovered: Snapshot | None = None
        self._read_from: object = None
        self._served: _Served | None = None
        # Another object after each reason to look anew; what was read before it counts no more.
        self._reason = object()

    @property
    def snapshot(self) -> Snapshot:
        """The tools that are served. Raises DatabaseError where the settings cannot be read."""
        # Read once: a reload between two reads would answer with nothing.
        served = self._served
        if served is not None and served.reason is self._reason and monotonic() < served.until:
            return served.snapshot
        with self._lock:
            served = self._served = self._read(self._served)
        return served.snapshot

    @property
    def discovered(self) -> Snapshot:
        """The tools of the code, whatever the owner has set; read on first use."""
        with self._lock:
            return self._found()

    def forget(self) -> None:
        """Have the next use look for other settings of the owner."""
        self._reason = object()

    def reload(self) -> None:
        """Have the next use read the sources again."""
        # With the lock: what is being read at this moment may be of before.
        with self._lock:
            self._discovered = None
        self.forget()

    def settings_changed(self) -> None:
        """Have the next use read the sources again, where other ones or other names are set."""
        with self._lock:
            found = self._discovered
            if found is not None and self._read_from == _origin():
                # What it has written may hold a setting.
                self._discovered = Snapshot(found, found.messages)
            else:
                self._discovered = None
        self.forget()

    def _found(self) -> Snapshot:
        found = self._discovered
        if found is None:
            self._read_from = _origin()
            found = self._discovered = build()
        return found

    def _read(self, known: _Served | None) -> _Served:
        reason, now = self._reason, monotonic()
        discovered = self._found()
        if not has_settings():
            return _Served(discovered, discovered, "", reason, math.inf)
        generation = apps.get_model("mcp_bridge", "Generation").current()
        until = now + conf.STATE_MAX_AGE
        if known and known.discovered is discovered and known.generation == generation:
            return replace(known, reason=reason, until=until)
        settings = tool_status.read_settings()
        if tool_status.approve_first_seen(discovered, settings):
            settings = tool_status.read_settings()
        snapshot = Snapshot(tool_status.served_tools(discovered, settings), discovered.messages)
        return _Served(discovered, snapshot, generation, reason, until)


def has_settings() -> bool:
    """Whether the site has the app and a database: without one of them nothing can be set."""
    if not apps.is_installed("mcp_bridge"):
        return False
    model = apps.get_model("mcp_bridge", "ToolSetting")
    return connections[router.db_for_write(model)].vendor != "unknown"


@dataclass(frozen=True, slots=True)
class _Served:
    """A snapshot with what it was made of, and for how long that need not be looked at."""

    discovered: Snapshot
    snapshot: Snapshot
    generation: str
    reason: object
    until: float


def _origin() -> object:
    """The settings that say which tools there are."""
    return settings.ROOT_URLCONF, conf.SOURCES, conf.TOOL_NAME_STYLE


def build() -> Snapshot:
    """Read every source of the setting SOURCES."""
    found: dict[str, list[Tool]] = {}
    messages: list[checks.CheckMessage] = []
    for alias in conf.SOURCES:
        source = load_source(alias, messages)
        if source is None:
            continue
        for tool in source.tools():
            found.setdefault(tool.name, []).append(tool)
        messages += source.messages
    messages += [_collision(name, tools) for name, tools in found.items() if len(tools) > 1]
    # Of two tools with one name neither is served: a caller could not know which it would get.
    return Snapshot((tools[0] for tools in found.values() if len(tools) == 1), messages)


def load_source(alias: str, messages: list[checks.CheckMessage]) -> Source | None:
    """The source of that alias; where it cannot be made, a message says why."""
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


def _collision(name: str, tools: Sequence[Tool]) -> checks.CheckMessage:
    places = " and ".join(tool.source for tool in tools)
    return checks.Error(
        f"{len(tools)} procedures would be the tool {name!r}, so none of them is: {places}.",
        hint="Give one of them another name: mcp_tool(name=...), or a prefix in SOURCES.",
        id="mcp_bridge.E007",
    )


registry = Registry()
