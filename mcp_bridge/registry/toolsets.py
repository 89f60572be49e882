"""Toolsets: the parts of the list of tools that the setting TOOLSETS names."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcp_bridge.conf import ToolsetOptions
from mcp_bridge.features import Feature

# The toolset of an endpoint that chooses none, where there is one of this name.
DEFAULT: Final = "default"
# What stands before the key in SOURCES of a source, all of whose tools are meant.
_SOURCE: Final = "source:"


def title_of(toolset: str | None) -> str:
    """Return in words whose list is meant, that of a toolset or of all tools."""
    return "All tools" if toolset is None else f"Toolset {toolset}"


def members(options: ToolsetOptions, features: Iterable[Feature]) -> Iterator[Feature]:
    """Return those of the features that are in a toolset."""
    is_meant = re.compile("|".join(map(fnmatch.translate, options["tools"])) or "(?!)").fullmatch
    only_reading = options.get("read_only", False)
    for each in features:
        named = is_meant(each.name) or is_meant(_SOURCE + each.source_alias)
        if named and (each.is_read_only or not only_reading):
            yield each


def unmatched(options: ToolsetOptions, aliases: Iterable[tuple[str, str]]) -> list[str]:
    """Return the patterns of a toolset that mean no tool; each has a name and a source's alias."""
    names = [each for name, alias in aliases for each in (name, _SOURCE + alias)]
    return [
        each
        for each in options["tools"]
        if not any(map(re.compile(fnmatch.translate(each)).match, names))
    ]
