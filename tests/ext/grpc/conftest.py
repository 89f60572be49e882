"""Sites whose tools are methods of gRPC services in the tests' own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge.testing.serving import route
from tests.support.protobuf import serving

# Serves the methods of a descriptor set and sets SOURCES to it, with options of the source.
Offer = Callable[..., None]
SOURCE = "mcp_bridge.ext.grpc.GRPCSource"


@pytest.fixture
def offer(tmp_path: Path, settings: Any) -> Iterator[Offer]:
    with ExitStack() as stack:

        def make(
            data: bytes,
            running: dict[str, Callable[..., Any]] | None = None,
            server: dict[str, Any] | None = None,
            **options: Any,
        ) -> None:
            path = tmp_path / "tested.binpb"
            path.write_bytes(data)
            if running is not None:
                port = stack.enter_context(serving(data, running, **(server or {})))
                options.setdefault("target", f"localhost:{port}")
            given = {"descriptors": path, "target": "localhost:1", **options}
            if "metadata" not in given:
                given.setdefault("anonymous", True)
            settings.MCP_BRIDGE = {"SOURCES": {"tested": {"BACKEND": SOURCE, "OPTIONS": given}}}
            route(settings)

        yield make
