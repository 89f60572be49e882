"""The upstream servers, and clients of them."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.auth.models import User

from mcp_bridge.models import ToolSetting
from mcp_bridge.outbound.client import Outbound
from mcp_bridge.remote.client import Client
from mcp_bridge.testing import MCPClient
from tests.remote.desk import Desk, open_desk
from tests.remote.tiny import Tiny, running
from tests.remote.upstreams import everything
from tests.remote.upstreams.dropping import DROPPING
from tests.remote.upstreams.huge import HUGE
from tests.remote.upstreams.lying import LIES
from tests.remote.upstreams.slow import SLOW
from tests.support.administrator import serve_tools
from tests.support.processes import ROOT
from tests.support.services import Service, service

# Makes a client of a URL; further arguments are those of Client, or limits of Outbound.
Connect = Callable[..., Client]


@pytest.fixture(scope="session")
def official() -> Iterator[str]:
    """Return the URL of the process with all official Python servers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port, number = listening.getsockname()[1], listening.fileno()
        # Connections wait in the socket until the server has started.
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.remote.upstreams.official", str(number)],
            cwd=ROOT,
            pass_fds=[number],
            stdin=subprocess.PIPE,
        )
    yield f"http://127.0.0.1:{port}"
    process.communicate()


@pytest.fixture(scope="session")
def everything_url() -> Iterator[str]:
    with everything.running() as url:
        yield url


@pytest.fixture(scope="session")
def lying() -> Iterator[Service]:
    with service(None, **LIES) as running:
        yield running


@pytest.fixture(scope="session")
def slow() -> Iterator[Service]:
    with service(None, **SLOW) as running:
        yield running


@pytest.fixture(scope="session")
def huge() -> Iterator[Service]:
    with service(None, **HUGE) as running:
        yield running


@pytest.fixture(scope="session")
def dropping() -> Iterator[Service]:
    with service(None, **DROPPING) as running:
        yield running


@pytest.fixture
def desk() -> Iterator[Desk]:
    with open_desk() as desk:
        yield desk


@pytest.fixture
def client(db: None) -> MCPClient:
    return MCPClient(user=User.objects.create_user("ada"))


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Return a function that makes clients, which are closed after the test."""
    made: list[Client] = []

    def make(
        url: str,
        version: str = "",
        *,
        headers: dict[str, str] | None = None,
        max_event_bytes: int = 10_000,
        **limits: Any,
    ) -> Client:
        outbound = Outbound(url, **{"timeout": 60, "max_bytes": 100_000, **limits})
        client = Client(outbound, headers or {}, version=version, max_event_bytes=max_event_bytes)
        made.append(client)
        return client

    yield make
    for each in made:
        each.close()


@pytest.fixture
def tiny(settings: Any) -> Iterator[Tiny]:
    """A site that may connect to a small MCP server on this machine."""
    with running() as made:
        settings.MCP_BRIDGE = {
            "REMOTE_SECRET_KEYS": [Fernet.generate_key().decode()],
            "REMOTE_ALLOWED_HOSTS": [made.host],
        }
        ToolSetting.objects.all().delete()
        serve_tools(settings)
        yield made
