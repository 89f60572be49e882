"""A tool that requires confirmation, and a client that supports forms."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.confirming import FORM, RUNS, other, wipe


@pytest.fixture
def wiping(settings: Any) -> None:
    RUNS.clear()
    serve(settings, wipe, other, confirm=True, title="Wipe")


@pytest.fixture
def asker(user: Any) -> CheckedClient:
    """A client that supports forms, so its user can be asked."""
    return CheckedClient(user=user, capabilities=FORM)
