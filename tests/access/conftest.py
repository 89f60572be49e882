"""Tools that run only after a person has agreed, or within limits, and a client to be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support import lane
from tests.support.confirming import FORM, RUNS, other, wipe


@pytest.fixture
def wiping(settings: Any) -> None:
    RUNS.clear()
    serve(settings, wipe, other, confirm=True, title="Wipe")


@pytest.fixture
def asker(user: Any) -> CheckedClient:
    """A client whose user can be asked."""
    return CheckedClient(user=user, capabilities=FORM)


@pytest.fixture
def limit(settings: Any) -> Callable[..., None]:
    """Serves functions to everybody, with settings."""

    def set_limit(*functions: Any, asynchronous: bool = False, **options: Any) -> None:
        settings.MCP_BRIDGE = options
        serve(settings, *functions, public=True, read_only=True, asynchronous=asynchronous)

    return set_limit


@pytest.fixture(params=[False, True], ids=["django", "direct lane"])
def application(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to serve the endpoint under ASGI."""
    if request.param:
        monkeypatch.setattr(lane, "IS_ON", True)
