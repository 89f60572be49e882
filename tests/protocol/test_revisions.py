from __future__ import annotations

import re

import pytest

from mcp_bridge.protocol.revisions import (
    LATEST,
    LATEST_LEGACY,
    REVISIONS,
    SUPPORTED_VERSIONS,
    UNDECLARED,
    Revision,
    negotiate,
)

MODERN = [version for version in REVISIONS if REVISIONS[version].modern]
LEGACY = [version for version in REVISIONS if not REVISIONS[version].modern]


def having(attribute: str, member: str) -> list[str]:
    """Return the versions that have the member in that set."""
    return [version for version in REVISIONS if member in getattr(REVISIONS[version], attribute)]


def test_five_revisions_are_served_newest_first() -> None:
    assert SUPPORTED_VERSIONS == (
        "2026-07-28",
        "2025-11-25",
        "2025-06-18",
        "2025-03-26",
        "2024-11-05",
    )
    assert (MODERN, LATEST.version, LATEST_LEGACY.version) == (
        ["2026-07-28"],
        "2026-07-28",
        "2025-11-25",
    )


@pytest.mark.parametrize("version", REVISIONS)
def test_revision_is_a_dated_version_and_its_own_key(version: str) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", version)
    assert str(REVISIONS[version]) == REVISIONS[version].version == version


@pytest.mark.parametrize("version", LEGACY)
def test_served_legacy_version_is_agreed_upon(version: str) -> None:
    assert negotiate(version) is REVISIONS[version]


@pytest.mark.parametrize("version", [*MODERN, "", "1900-01-01", "2099-01-01", "latest", "é"])
def test_other_versions_get_the_latest_legacy_version(version: str) -> None:
    assert negotiate(version) is LATEST_LEGACY


def test_batches_and_the_default_are_of_2025_03_26() -> None:
    assert [version for version in REVISIONS if REVISIONS[version].batches] == ["2025-03-26"]
    assert UNDECLARED is REVISIONS["2025-03-26"]


@pytest.mark.parametrize(
    ("attribute", "member", "versions"),
    [
        ("tool_fields", "name", [*MODERN, *LEGACY]),
        ("tool_fields", "inputSchema", [*MODERN, *LEGACY]),
        ("tool_fields", "annotations", [*MODERN, *LEGACY[:-1]]),
        ("tool_fields", "title", [*MODERN, *LEGACY[:-2]]),
        ("tool_fields", "outputSchema", [*MODERN, *LEGACY[:-2]]),
        ("tool_fields", "_meta", [*MODERN, *LEGACY[:-2]]),
        ("tool_fields", "icons", [*MODERN, "2025-11-25"]),
        ("content_types", "text", [*MODERN, *LEGACY]),
        ("content_types", "resource", [*MODERN, *LEGACY]),
        ("content_types", "audio", [*MODERN, *LEGACY[:-1]]),
        ("content_types", "resource_link", [*MODERN, *LEGACY[:-2]]),
    ],
)
def test_added_field_is_in_that_and_later_revisions(
    attribute: str, member: str, versions: list[str]
) -> None:
    assert having(attribute, member) == versions


def test_structured_content_begins_with_2025_06_18() -> None:
    structured = [version for version in REVISIONS if REVISIONS[version].structured_content]
    assert structured == [*MODERN, *LEGACY[:-2]]


def test_revision_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        LATEST.batches = True  # type: ignore[misc]
    assert Revision(version="2030-01-01") != LATEST
