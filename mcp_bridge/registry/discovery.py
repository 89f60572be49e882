"""Read the features of all sources: the default ones and those in SOURCES."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from django.core import checks
from django.db import DatabaseError
from django.utils.module_loading import import_string

from mcp_bridge.conf import DOCUMENTATION, conf
from mcp_bridge.features import Feature, Key, Tool
from mcp_bridge.features.secrets import deals_with_secrets
from mcp_bridge.schemas import forget_hints
from mcp_bridge.sources.base import NotYet, Source, first_line, mend_import, own_line

# The default BACKEND of an entry of SOURCES.
_BACKEND: Final = "mcp_bridge.sources.modernrpc.ModernRPCSource"


class Reading(NamedTuple):
    """The features and messages of one source, and its version when it was read."""

    source: Source | None
    features: Sequence[Feature]
    messages: Sequence[checks.CheckMessage]
    version: Hashable

    def holds(self, generations: Mapping[int, str] | None) -> bool:
        """Return whether the source is unchanged, as far as its version shows."""
        if self.source is None or generations is None:
            return True
        return version_of(self.source, generations) == self.version

    @property
    def may_change(self) -> bool:
        """Whether the source has versions."""
        return self.version is not None

    @property
    def waits(self) -> bool:
        """Whether some feature could not be built yet."""
        return any(isinstance(each, NotYet) for each in self.messages)


def version_of(source: Source, generations: Mapping[int, str]) -> Hashable:
    """Return the version of a source, or its error: then it is read when that is another one."""
    try:
        return source.version(generations)
    except Exception as exception:
        return repr(exception)


def make_source(alias: str) -> Source:
    """Return the source of an entry of SOURCES. Raises any exception if it cannot be made."""
    config = conf.sources[alias]
    for key in config.keys() - {"BACKEND", "OPTIONS"}:
        raise TypeError(f"unknown key {key!r}")
    source = import_string(config.get("BACKEND", _BACKEND))(alias, config.get("OPTIONS", {}))
    if not isinstance(source, Source):
        raise TypeError(f"BACKEND returns a {type(source).__name__}, not a Source")
    return source


def read_source(alias: str, generations: Mapping[int, str] | None) -> Reading:
    """Read a source of the site; an error in it is among the messages."""
    source: Source | None = None
    try:
        source = make_source(alias)
    except Exception as exception:
        message = checks.Error(
            f"MCP_BRIDGE['SOURCES'][{alias!r}] cannot be used: {first_line(exception)}.",
            hint='An entry is {"BACKEND": dotted path, "OPTIONS": {...}}. BACKEND is a subclass '
            "of mcp_bridge.sources.base.Source (default: the source for django-modern-rpc). "
            f"For the options, see {DOCUMENTATION}sources/.",
            id="mcp_bridge.E003",
        )
        return Reading(None, [], [message], None)
    # Read before the tools, so that changes in the meantime cause another read.
    version = version_of(source, generations or {})
    try:
        features = [
            each if each.source_alias == alias else replace(each, source_alias=alias)
            for each in source.tools()
        ]
    except Exception as exception:
        return Reading(source, [], [_unread(alias, exception)], version)
    return Reading(source, features, source.messages, version)


def combine(
    readings: Mapping[str, Reading],
) -> tuple[list[Feature], list[checks.CheckMessage], dict[str, Tool]]:
    """Return the features of all sources, the messages, and the candidates by name."""
    found: dict[Key, list[Feature]] = {}
    messages: list[checks.CheckMessage] = []
    # Messages of default sources that do not have tools.
    nothing: list[checks.CheckMessage] = []
    outside, sensitive = set[str](), conf.sensitive_names
    for alias, (source, features, said, _) in readings.items():
        messages += said
        if source is not None and source.is_outside:
            outside.add(alias)
        for feature in features:
            own = f"{feature.name} {feature.function.rpartition('.')[2]}"
            is_own = not (feature.is_marked or feature.is_foreign)
            if is_own and deals_with_secrets(own, sensitive):
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
        # If two share a name, neither is served: it would be unclear which one is called.
        kept += marked if len(marked) == 1 else features if len(features) == 1 else ()
    forget_hints()
    if any(each.kind == "resource" for each in kept):
        kept = _without_overlaps(kept, messages)
    unmarked = {each.name: each for each in kept if isinstance(each, Tool) and not each.is_marked}
    marked = [each for each in kept if each.is_marked]
    return marked, messages, dict(sorted(unmarked.items()))


def _without_overlaps(
    features: Sequence[Feature], messages: list[checks.CheckMessage]
) -> list[Feature]:
    """Return the features without resources that one URI can mean, with a message for each pair."""
    # Imported here, since many sites have tools alone.
    from mcp_bridge.features.resources import Resource, overlapping

    left_out = set[Feature]()
    for pair in overlapping(each for each in features if isinstance(each, Resource)):
        places = " and ".join(f"{each.name} ({each.uri}, {each.source})" for each in pair)
        messages.append(
            checks.Error(
                f"Two resources match the same URIs, so neither is served: {places}.",
                hint="Change one of the URIs, such as its first segment.",
                id="mcp_bridge.E028",
            )
        )
        left_out.update(pair)
    return [each for each in features if each not in left_out]


def _shared(features: Sequence[Feature], outside: set[str]) -> checks.CheckMessage:
    """Return the message for several features of one kind and name."""
    (kind, name), marked = features[0].key, [each for each in features if each.is_marked]
    if len(marked) > 1:
        functions = " and ".join(
            f"{each.function} ({each.source})" if each.function else each.source for each in marked
        )
        is_own = outside.isdisjoint(each.source_alias for each in marked)
        return (checks.Error if is_own else checks.Warning)(
            f"{len(marked)} functions have the {kind} name {name!r}, so none is served: "
            f"{functions}.",
            hint="Rename one with mcp_tool(name=...) or a prefix in SOURCES. If two sources read "
            "the same functions, remove one (None).",
            id="mcp_bridge.E007" if is_own else "mcp_bridge.W027",
        )
    places = [
        each.source or each.function or each.source_alias for each in features if not each.is_marked
    ]
    text = (
        f"{len(places)} candidates have the name {name!r}, so none is used: {' and '.join(places)}."
    )
    if marked:
        text = f"The candidate {name!r} ({places[0]}) has the name of a {kind}, which is served."
    hint = "Set a prefix in SOURCES, or mark one of them with mcp_tool(name=...)."
    return checks.Warning(text, hint=hint, id="mcp_bridge.W091")


def _is_same(one: Feature, other: Feature) -> bool:
    """Return whether two sources read the same function with the same access rule."""
    told = [(each.function, each.code, each.access) for each in (one, other)]
    return one.source_alias != other.source_alias and one.code is not None and told[0] == told[1]


def _unread(alias: str, exception: Exception) -> checks.CheckMessage:
    """Return the message for a source whose tools cannot be read at all."""
    where = f"MCP_BRIDGE['SOURCES'][{alias!r}]"
    if isinstance(exception, DatabaseError):
        # An error would stop "manage.py migrate", which may be the fix.
        return NotYet(
            f"The tools of {where} come from the database and cannot be read yet: "
            f"{first_line(exception)}.",
            hint="Run manage.py migrate; running processes retry automatically.",
            id="mcp_bridge.W018",
        )
    line = own_line(exception)
    place = f"Fix the error raised at {line}" if line else "Check its OPTIONS"
    return checks.Error(
        f"The tools of {where} cannot be read: {type(exception).__name__}: "
        f"{first_line(exception)}.",
        hint=mend_import(exception) or f"{place}, or remove the source from SOURCES.",
        id="mcp_bridge.E011",
    )
