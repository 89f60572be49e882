"""
Define the supported MCP revisions and their features.

Code tests for a feature of a revision and never compares revisions. See MCP, "Versioning", for the
two eras: modern revisions send their metadata in each request, legacy ones begin with a handshake.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


# Compared by identity, which is cheapest in cache keys.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Revision:
    """The features of one dated version of MCP; the defaults are those of the oldest."""

    version: str
    # Metadata in params._meta, mirrored in Mcp-* headers; resultType, ttlMs and cacheScope in
    # results; errors that set the HTTP status.
    modern: bool = False
    tool_fields: frozenset[str] = frozenset({"name", "description", "inputSchema"})
    content_types: frozenset[str] = frozenset({"text", "image", "resource"})
    structured_content: bool = False
    batches: bool = False
    # Results that request input from the client first (MCP, "Multi round-trip requests").
    input_required: bool = False

    def __str__(self) -> str:
        return self.version


_OLDEST: Final = Revision(version="2024-11-05")
# The revision of a request without MCP-Protocol-Version (MCP 2025-06-18, "Transports").
UNDECLARED: Final = replace(
    _OLDEST,
    version="2025-03-26",
    tool_fields=_OLDEST.tool_fields | {"annotations"},
    content_types=_OLDEST.content_types | {"audio"},
    batches=True,
)
_STRUCTURED: Final = replace(
    UNDECLARED,
    version="2025-06-18",
    tool_fields=UNDECLARED.tool_fields | {"title", "outputSchema", "_meta"},
    content_types=UNDECLARED.content_types | {"resource_link"},
    structured_content=True,
    batches=False,
)
LATEST_LEGACY: Final = replace(
    _STRUCTURED, version="2025-11-25", tool_fields=_STRUCTURED.tool_fields | {"icons"}
)
LATEST: Final = replace(LATEST_LEGACY, version="2026-07-28", modern=True, input_required=True)
_SERVED: Final = (LATEST, LATEST_LEGACY, _STRUCTURED, UNDECLARED, _OLDEST)
REVISIONS: Final = {revision.version: revision for revision in _SERVED}
SUPPORTED_VERSIONS: Final = tuple(REVISIONS)


def negotiate(requested: str) -> Revision:
    """Return the revision for ``initialize``: the requested or the latest legacy one."""
    revision = REVISIONS.get(requested, LATEST_LEGACY)
    return LATEST_LEGACY if revision.modern else revision
