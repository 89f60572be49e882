"""Tools that run within limits, and both ways to serve the endpoint under ASGI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_bridge.testing.serving import serve
from tests.support import lane


@pytest.fixture
def limit(settings: Any) -> Callable[..., None]:
    """Serve functions to every caller, with settings."""

    def set_limit(*functions: Any, asynchronous: bool = False, **options: Any) -> None:
        settings.MCP_BRIDGE = options
        serve(settings, *functions, public=True, read_only=True, asynchronous=asynchronous)

    return set_limit


@pytest.fixture(params=[False, True], ids=["django", "direct lane"])
def application(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve the endpoint under ASGI in either way."""
    if request.param:
        monkeypatch.setattr(lane, "IS_ON", True)
