"""Lists of features: toolsets (the setting TOOLSETS) and pages."""

from __future__ import annotations

import fnmatch
import re
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, NamedTuple

from mcp_bridge.conf import ToolsetOptions, conf
from mcp_bridge.features import AnyFeature, Feature

# The toolset of an endpoint that does not choose one, if it is defined.
DEFAULT: Final = "default"
# The prefix of a pattern for all tools of a source, before its key in SOURCES.
_SOURCE: Final = "source:"
# The most bytes that a snapshot keeps: 32 pages of the default size.
MOST_BYTES: Final = 16 * 1024 * 1024
# The bytes of an entry besides the text, and of each member of its key and page.
_ENTRY, _MEMBER = 1024, 64


class Page(NamedTuple):
    """Features, the JSON array of their definitions, and the last name if more follow."""

    features: tuple[Feature, ...]
    array: bytes
    last: str | None


def cut(features: Iterable[Feature], write: Callable[[Feature], bytes]) -> Page:
    """Return the first page: at most PAGE_SIZE features and PAGE_BYTES as written by ``write``."""
    size, limit = conf.PAGE_SIZE, conf.PAGE_BYTES
    taken: list[Feature] = []
    written: list[bytes] = []
    total, last = 0, None
    for feature in features:
        definition = write(feature)
        total += len(definition)
        if taken and (len(taken) == size or total > limit):
            last = taken[-1].name
            break
        taken.append(feature)
        written.append(definition)
    return Page(tuple(taken), b"[" + b",".join(written) + b"]", last)


class PageCache:
    """Pages by key; the oldest are dropped above MOST_BYTES in total."""

    def __init__(self) -> None:
        self.size = 0
        self.kept: dict[Hashable, tuple[Page, int]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Page | None:
        """Return the page of a key, or None."""
        found = self.kept.get(key)
        return None if found is None else found[0]

    def put(self, key: Hashable, page: Page, members: int = 0) -> None:
        """Store a page, unless it exceeds the limit alone; its key has ``members`` members."""
        size = len(page.array) + _ENTRY + _MEMBER * (len(page.features) + members)
        with self._lock:
            if size > MOST_BYTES or key in self.kept:
                return
            self.kept[key] = page, size
            self.size += size
            while self.size > MOST_BYTES:
                _, dropped = self.kept.pop(next(iter(self.kept)))
                self.size -= dropped


def title_of(toolset: str | None) -> str:
    """Return the title of the list of a toolset or of all tools."""
    return "All tools" if toolset is None else f"Toolset {toolset}"


def members(options: ToolsetOptions, features: Iterable[AnyFeature]) -> Iterator[AnyFeature]:
    """Yield the features that are in a toolset."""
    is_meant = re.compile("|".join(map(fnmatch.translate, options["tools"])) or "(?!)").fullmatch
    only_reading = options.get("read_only", False)
    for each in features:
        named = is_meant(each.name) or is_meant(_SOURCE + each.source_alias)
        if named and (each.is_read_only or not only_reading):
            yield each


def unmatched(options: ToolsetOptions, aliases: Iterable[tuple[str, str]]) -> list[str]:
    """Return a toolset's patterns that match none of ``aliases`` (tool name, source alias)."""
    names = [each for name, alias in aliases for each in (name, _SOURCE + alias)]
    return [
        each
        for each in options["tools"]
        if not any(map(re.compile(fnmatch.translate(each)).match, names))
    ]
