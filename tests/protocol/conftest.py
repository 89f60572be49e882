from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def test_site() -> None:
    """These tests need no site: the protocol knows no framework."""
