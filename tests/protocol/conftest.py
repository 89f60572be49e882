from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def test_site() -> None:
    """Replace the site's fixture: the protocol knows no framework."""
