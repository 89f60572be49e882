"""The everything-server of the official TypeScript SDK, as ``make conformance`` installs it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import ROOT

# Another place has a copy of that folder.
HOME = Path(os.environ.get("MCP_BRIDGE_TEST_NODE", ROOT / ".conformance"))
PROGRAM = HOME / "node" / "node_modules" / ".bin" / "mcp-server-everything"


def node() -> str | None:
    """Return the path of Node, if it and the server are installed."""
    installed = HOME / "venv" / "bin" / "node"
    found = str(installed) if installed.exists() else shutil.which("node")
    return found if PROGRAM.exists() else None


@contextmanager
def running() -> Iterator[str]:
    """Yield the URL of the server."""
    program = node()
    assert program is not None, "make .conformance/installed"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "PORT": str(port)}
    process = subprocess.Popen(
        [program, PROGRAM, "streamableHttp"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(process, port)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait(30)


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            assert process.poll() is None, "the server has ended"
            assert time.monotonic() < until
            time.sleep(0.05)
