"""The sources that a test takes away, so that nothing can be fetched."""

from __future__ import annotations

import socket
from typing import Any

import pytest


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace network and files: any access to them fails the test."""

    def reached(*arguments: Any, **options: Any) -> None:
        raise AssertionError("something was fetched")

    monkeypatch.setattr(socket, "getaddrinfo", reached)
    monkeypatch.setattr(socket.socket, "connect", reached)
    monkeypatch.setattr("builtins.open", reached)
