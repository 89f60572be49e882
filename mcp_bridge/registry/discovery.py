"""The features of all sources: the default ones and those in SOURCES."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from django.core import checks
from django.db import DatabaseError
from django.utils.module_loading import import_string

from mcp_bridge.conf import DOCUMENTATION, conf
from mcp_bridge.features import AnyFeature, Feature, Key, Tool
from mcp_bridge.features.secrets import deals_with_secrets
from mcp_bridge.schemas import forget_hints
from mcp_bridge.sources.base import NotYet, Source, first_line, mend_import, own_line
from mcp_bridge.sources.secrets import secret_member

# The source of an entry of SOURCES that names none.
_BACKEND: Final = "mcp_bridge.sources.modernrpc.ModernRPCSource"


class Reading(NamedTuple):
    """The features of one source and its messages, at the version at which it was read."""

    source: Source | None
    features: Sequence[Feature]
    messages: Sequence[checks.CheckMessage]
    version: Hashable

    def holds(self, generations: Mapping[int, str] | None) -> bool:
        """Return whether the source would return the same again, as far as it says."""
        if self.source is None or generations is None:
            return True
        return self.source.version(generations) == self.version

    @property
    def waits(self) -> bool:
        """Whether one could not be made yet."""
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


def read_source(alias: str, generations: Mapping[int, str] | None) -> Reading:
    """Read a source of the site; an error in it is among the messages."""
    source: Source | None = None
    try:
        source = make_source(alias)
    except Exception as exception:
        message = checks.Error(
            f"MCP_BRIDGE['SOURCES'][{alias!r}] cannot be used: {first_line(exception)}.",
            hint='An entry is {"BACKEND": dotted path, "OPTIONS": {...}}, with the path of '
            "a subclass of mcp_bridge.sources.base.Source; without BACKEND it is of "
            f"django-modern-rpc. The options of each: {DOCUMENTATION}sources/.",
            id="mcp_bridge.E003",
        )
        return Reading(None, [], [message], None)
    # Before the tools: what changes meanwhile is read again.
    version = None if generations is None else source.version(generations)
    try:
        features = [replace(each, source_alias=alias) for each in source.tools()]
    except Exception as exception:
        return Reading(source, [], [_unread(alias, exception)], version)
    features = [
        each if each.is_marked else replace(each, build=partial(_whole, each)) for each in features
    ]
    return Reading(source, features, source.messages, version)


def _whole(feature: AnyFeature) -> AnyFeature:
    """Return the whole of a feature that nobody has marked. Raises what says why there is none."""
    made = feature.built
    if made.name != feature.name:
        raise ValueError(f"its source makes the {made.kind} {made.name!r} of it")
    for schema in made.schemas.values():
        if secret := secret_member(schema):
            raise ValueError(
                f"it takes or returns a secret, {secret!r}, so that only a mark makes it a tool"
            )
    return replace(made, is_marked=False, source_alias=feature.source_alias)


def combine(
    readings: Mapping[str, Reading],
) -> tuple[list[Feature], list[checks.CheckMessage], dict[str, Tool]]:
    """Return the features of all sources, messages on the rest, and tools that are not marked."""
    found: dict[Key, list[Feature]] = {}
    messages: list[checks.CheckMessage] = []
    # The messages of default sources without tools.
    nothing: list[checks.CheckMessage] = []
    outside = set[str]()
    for alias, (source, features, said, _) in readings.items():
        messages += said
        if source is not None and source.is_outside:
            outside.add(alias)
        for feature in features:
            own = f"{feature.name} {feature.function.rpartition('.')[2]}"
            if not feature.is_marked and deals_with_secrets(own, conf.sensitive_names):
                continue
            others = [each for each in found.get(feature.key, ()) if not _is_same(each, feature)]
            found[feature.key] = [*others, feature]
        if source is not None and not features:
            (messages if alias in conf.SOURCES else nothing).extend(source.check_no_tools())
    if not (found or messages):
        messages += nothing
    kept = list[Feature]()
    for features in found.values():
        marked = [each for each in features if each.is_marked]
        if len(features) > 1:
            messages.append(_shared(features, outside))
        # Of two with one name neither is served: a caller could not know which it would get.
        kept += marked if len(marked) == 1 else features if len(features) == 1 else ()
    forget_hints()
    unmarked = {each.name: each for each in kept if isinstance(each, Tool) and not each.is_marked}
    marked = [each for each in kept if each.is_marked]
    return marked, messages, dict(sorted(unmarked.items()))


def _shared(features: Sequence[Feature], outside: set[str]) -> checks.CheckMessage:
    """Return the message on several features of one kind and name."""
    (kind, name), marked = features[0].key, [each for each in features if each.is_marked]
    if len(marked) > 1:
        functions = " and ".join(
            f"{each.function} ({each.source})" if each.function else each.source for each in marked
        )
        is_own = outside.isdisjoint(each.source_alias for each in marked)
        return (checks.Error if is_own else checks.Warning)(
            f"{len(marked)} functions would be the {kind} {name!r}, so none of them is: "
            f"{functions}.",
            hint="Give one of them another name: mcp_tool(name=...), or a prefix in "
            "SOURCES; or take one of two sources out that read the same (None).",
            id="mcp_bridge.E007" if is_own else "mcp_bridge.W027",
        )
    places = [
        each.source or each.function or each.source_alias for each in features if not each.is_marked
    ]
    text = (
        f"{len(places)} candidates have the name {name!r}, so none is one: {' and '.join(places)}."
    )
    if marked:
        text = f"The candidate {name!r} ({places[0]}) has the name of a {kind}, which wins."
    hint = "Give a prefix in SOURCES, or mark one of them: mcp_tool(name=...)."
    return checks.Warning(text, hint=hint, id="mcp_bridge.W091")


def _is_same(one: Feature, other: Feature) -> bool:
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
