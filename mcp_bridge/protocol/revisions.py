"""
The MCP revisions that are served, as a table of their features.

Code looks up a feature of a revision and never compares revisions: they are an enumerated set, and
a new one is a new row. See MCP, "Versioning", for the two eras: modern revisions carry their
metadata in each request, legacy ones begin with an ``initialize`` handshake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_FIELDS_2024 = frozenset({"name", "description", "inputSchema"})
_FIELDS_2025_03 = _FIELDS_2024 | {"annotations"}
_FIELDS_2025_06 = _FIELDS_2025_03 | {"title", "outputSchema", "_meta"}
_FIELDS_2025_11 = _FIELDS_2025_06 | {"icons"}

_LEGACY_METHODS = frozenset({"initialize", "ping", "tools/list", "tools/call"})
_MODERN_METHODS = frozenset({"server/discover", "tools/list", "tools/call"})

_CONTENT_2024 = frozenset({"text", "image", "resource"})
_CONTENT_2025_03 = _CONTENT_2024 | {"audio"}
_CONTENT_2025_06 = _CONTENT_2025_03 | {"resource_link"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """The features of one dated version of MCP."""

    version: str
    # Metadata in params._meta, mirrored in Mcp-* headers; resultType, ttlMs and cacheScope in
    # results; errors that set the HTTP status.
    modern: bool = False
    methods: frozenset[str] = _LEGACY_METHODS
    tool_fields: frozenset[str] = _FIELDS_2025_06
    content_types: frozenset[str] = _CONTENT_2025_06
    structured_content: bool = True
    batches: bool = False
    # Results that ask the client for input first (MCP, "Multi round-trip requests").
    input_required: bool = False

    def __str__(self) -> str:
        return self.version


REVISIONS: Final[dict[str, Revision]] = {
    revision.version: revision
    for revision in (
        Revision(
            version="2026-07-28",
            modern=True,
            methods=_MODERN_METHODS,
            input_required=True,
            tool_fields=_FIELDS_2025_11,
        ),
        Revision(version="2025-11-25", tool_fields=_FIELDS_2025_11),
        Revision(version="2025-06-18"),
        Revision(
            version="2025-03-26",
            tool_fields=_FIELDS_2025_03,
            content_types=_CONTENT_2025_03,
            structured_content=False,
            batches=True,
        ),
        Revision(
            version="2024-11-05",
            tool_fields=_FIELDS_2024,
            content_types=_CONTENT_2024,
            structured_content=False,
        ),
    )
}
SUPPORTED_VERSIONS: Final = tuple(REVISIONS)
LATEST: Final = REVISIONS["2026-07-28"]
LATEST_LEGACY: Final = REVISIONS["2025-11-25"]
# The revision of a request without MCP-Protocol-Version (MCP 2025-06-18, "Transports").
UNDECLARED: Final = REVISIONS["2025-03-26"]


def negotiate(requested: str) -> Revision:
    """Return the revision that answers ``initialize``: the requested or the latest legacy one."""
    revision = REVISIONS.get(requested, LATEST_LEGACY)
    return LATEST_LEGACY if revision.modern else revision
