"""Pages of features: cut by bytes, and kept as JSON text within a bound of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Final, NamedTuple

from mcp_bridge.conf import conf
from mcp_bridge.features import Feature

# The most that a snapshot keeps: 32 pages of the default size.
MOST_BYTES: Final = 16 * 1024 * 1024
# What an entry takes beside the text, and each member of its key and of its page.
_ENTRY, _MEMBER = 1024, 64


class Page(NamedTuple):
    """Features, the JSON array of their definitions, and the last name if more follow."""

    features: tuple[Feature, ...]
    array: bytes
    last: str | None


def cut(features: Iterable[Feature], write: Callable[[Feature], bytes]) -> Page:
    """
    Return the first page of features, of which ``write`` returns the definition as JSON text.

    It holds at most PAGE_SIZE of them and PAGE_BYTES of definitions, and one in any case.
    """
    size, limit = conf.PAGE_SIZE, conf.PAGE_BYTES
    taken: list[Feature] = []
    written: list[bytes] = []
    total = 0
    for feature in features:
        if len(taken) == size:
            break
        definition = write(feature)
        total += len(definition)
        if taken and total > limit:
            break
        taken.append(feature)
        written.append(definition)
    else:
        return Page(tuple(taken), b"[" + b",".join(written) + b"]", None)
    return Page(tuple(taken), b"[" + b",".join(written) + b"]", taken[-1].name)


class CacheInfo(NamedTuple):
    """How many pages are kept, and their bytes."""

    currsize: int
    bytes: int


class PageCache:
    """Pages by key; the least recently used go where there are more bytes than ``most``."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._bytes = 0
        self._pages: OrderedDict[Hashable, tuple[Page, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Page | None:
        """Return the page of a key, or None."""
        found = self._pages.get(key)
        if found is None:
            return None
        with self._lock:
            # Another thread may have dropped it meanwhile.
            if key in self._pages:
                self._pages.move_to_end(key)
        return found[0]

    def put(self, key: Hashable, page: Page, members: int = 0) -> None:
        """Keep a page, unless it alone is more than may be kept; its key has ``members``."""
        size = len(page.array) + _ENTRY + _MEMBER * (len(page.features) + members)
        if size > self._most:
            return
        with self._lock:
            _, known = self._pages.pop(key, (page, 0))
            self._bytes += size - known
            self._pages[key] = page, size
            while self._bytes > self._most:
                _, (_, dropped) = self._pages.popitem(last=False)
                self._bytes -= dropped

    def cache_info(self) -> CacheInfo:
        return CacheInfo(len(self._pages), self._bytes)
