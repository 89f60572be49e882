from __future__ import annotations

import pytest

from mcp_bridge.testing import MCPClient
from tests.support.revisions import ERAS
from tests.support.wire import caller


@pytest.fixture(params=ERAS)
def sender(request: pytest.FixtureRequest) -> MCPClient:
    """Return a client of each era."""
    return caller(request.param)
