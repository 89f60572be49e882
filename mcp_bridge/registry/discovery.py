"""The tools and candidates of all sources: the default ones and those in SOURCES."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from django.core import checks
from django.db import DatabaseError
from django.utils.module_loading import import_string

from mcp_bridge.conf import DOCUMENTATION, conf
from mcp_bridge.features import Tool
from mcp_bridge.registry.candidates import Candidates, Offered, choose
from mcp_bridge.schemas import forget_hints
from mcp_bridge.sources.base import NotYet, Source, first_line, mend_import, own_line

# The source of an entry of SOURCES that names none.
_BACKEND: Final = "mcp_bridge.sources.modernrpc.ModernRPCSource"


class Found(NamedTuple):
    """The tools of all sources, messages on the rest, and the candidates."""

    tools: Sequence[Tool]
    messages: Sequence[checks.CheckMessage]
    candidates: Candidates

    @property
    def waits(self) -> bool:
        """Whether a tool could not be made yet."""
        return any(isinstance(each, NotYet) for each in self.messages)


def make_source(alias: str) -> Source:
    """Return the source of an entry of SOURCES. Raises what says why there can be none."""
    config = conf.sources[alias]
    for key in config.keys() - {"BACKEND", "OPTIONS"}:
        raise TypeError(f"it has no key {key!r}")
    source = import_string(config.get("BACKEND", _BACKEND))(alias, config.get("OPTIONS", {}))
    if not isinstance(source, Source):
        raise TypeError(f"it makes a {type(source).__name__}, not a Source")
    return source


def read_sources() -> Found:
    """Read every source of the site; an error in one is among the messages."""
    found: dict[str, list[Tool]] = {}
    messages: list[checks.CheckMessage] = []
    # The messages of default sources without tools.
    nothing: list[checks.CheckMessage] = []
    offers: list[Offered] = []
    outside = set[str]()
    for alias in conf.sources:
        try:
            source = make_source(alias)
        except Exception as exception:
            messages.append(
                checks.Error(
                    f"MCP_BRIDGE['SOURCES'][{alias!r}] cannot be used: {first_line(exception)}.",
                    hint='An entry is {"BACKEND": dotted path, "OPTIONS": {...}}, with the path of '
                    "a subclass of mcp_bridge.sources.base.Source; without BACKEND it is of "
                    f"django-modern-rpc. The options of each: {DOCUMENTATION}sources/README.md.",
                    id="mcp_bridge.E003",
                )
            )
            continue
        try:
            tools = [replace(tool, source_alias=alias) for tool in source.tools()]
        except Exception as exception:
            messages.append(_unread(alias, exception))
            continue
        outside |= {alias} if source.is_outside else set()
        for tool in tools:
            others = [each for each in found.get(tool.name, ()) if not _is_same(each, tool)]
            found[tool.name] = [*others, tool]
        try:
            offers += (Offered(each, alias) for each in source.candidates())
        except Exception as exception:
            messages.append(
                checks.Warning(
                    f"The candidates of MCP_BRIDGE['SOURCES'][{alias!r}] cannot be listed: "
                    f"{first_line(exception)}.",
                    hint="Its tools are served. Mend what raises, or expose what is marked alone.",
                    id="mcp_bridge.W093",
                )
            )
        messages += source.messages
        if not tools and alias in conf.SOURCES:
            messages += source.check_no_tools()
        elif not tools:
            nothing += source.check_no_tools()
    if not (found or messages or offers):
        messages += nothing
    for name, tools in found.items():
        if len(tools) > 1:
            functions = " and ".join(
                f"{tool.function} ({tool.source})" if tool.function else tool.source
                for tool in tools
            )
            is_own = outside.isdisjoint(tool.source_alias for tool in tools)
            messages.append(
                (checks.Error if is_own else checks.Warning)(
                    f"{len(tools)} functions would be the tool {name!r}, so none of them is: "
                    f"{functions}.",
                    hint="Give one of them another name: mcp_tool(name=...), or a prefix in "
                    "SOURCES; or take one of two sources out that read the same (None).",
                    id="mcp_bridge.E007" if is_own else "mcp_bridge.W027",
                )
            )
    candidates, taken = choose(offers, found)
    forget_hints()
    # Of two tools with one name neither is served: a caller could not know which it would get.
    tools = [tools[0] for tools in found.values() if len(tools) == 1]
    return Found(tools, [*messages, *taken], candidates)


def _is_same(one: Tool, other: Tool) -> bool:
    """Return whether two sources have read the same function with the same access rule."""
    told = [(each.function, each.code, each.access) for each in (one, other)]
    return one.source_alias != other.source_alias and one.code is not None and told[0] == told[1]


def _unread(alias: str, exception: Exception) -> checks.CheckMessage:
    """Return the message of a source whose tools cannot be read at all, now or ever."""
    where = f"MCP_BRIDGE['SOURCES'][{alias!r}]"
    if isinstance(exception, DatabaseError):
        # An error would stop "manage.py migrate", which may be what is missing.
        return NotYet(
            f"{where} has no tools yet, since they are read from the database: "
            f"{first_line(exception)}.",
            hint="Run manage.py migrate: a process that runs already tries again by itself.",
            id="mcp_bridge.W018",
        )
    line = own_line(exception)
    place = f"It was raised at {line}: mend what is wrong there" if line else "Look at its OPTIONS"
    return checks.Error(
        f"{where} has no tools, since reading them failed: {type(exception).__name__}: "
        f"{first_line(exception)}.",
        hint=mend_import(exception) or f"{place}, or take the source out of SOURCES.",
        id="mcp_bridge.E011",
    )
