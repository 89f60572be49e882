"""The protocol revisions that the tests speak."""

from __future__ import annotations

from mcp_bridge.protocol import REVISIONS

EVERY_REVISION = tuple(REVISIONS)
SPOKEN = tuple(version for version in EVERY_REVISION if version != "2024-11-05")
# One revision of each era.
ERAS = ("2026-07-28", "2025-11-25")
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
