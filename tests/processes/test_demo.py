from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request

import pytest

pytest.importorskip("mcp")

ROOT = Path(__file__).resolve().parents[2]
DEMO = [sys.executable, "manage.py", "demo"]


def environment(directory: Path) -> dict[str, str]:
    """Check that the demo's database is made in the directory and removed from it."""
    site = {"DJANGO_SETTINGS_MODULE": "testproject.settings", "TMPDIR": str(directory)}
    # In that mode asyncio debugs as well, and reports every slow step on stderr.
    left_out = ("PYTHONDEVMODE", "PYTHONUNBUFFERED", "MCP_BRIDGE_TEST_DATABASE_URL")
    return {name: each for name, each in os.environ.items() if name not in left_out} | site


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DEMO, *arguments],
        cwd=ROOT,
        env=environment(directory),
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_taken_port_is_reported_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        demo = run(tmp_path, "--once", "--port", str(port))
    assert demo.returncode == 1
    assert f"Port {port} of 127.0.0.1 is taken" in demo.stderr
    assert "Traceback" not in demo.stderr


@contextmanager
def serving(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Run the demo, with its output still unread."""
    demo = subprocess.Popen(
        [*DEMO, "--port", "0"],
        cwd=ROOT,
        env=environment(directory),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with demo:
        try:
            yield demo
        finally:
            demo.kill()


def until(demo: subprocess.Popen[str], begin: str) -> list[str]:
    """Return the lines that it prints, up to one that begins so."""
    lines: list[str] = []
    while not lines or not lines[-1].startswith(begin):
        line = demo.stdout.readline() if demo.stdout else ""
        assert line, lines
        lines.append(line)
    return lines


def end(demo: subprocess.Popen[str], by: signal.Signals, directory: Path) -> list[str]:
    """Stop it by the signal; return its stderr."""
    demo.send_signal(by)
    _, stderr = demo.communicate(timeout=20)
    assert demo.returncode == 0, stderr
    assert "Traceback" not in stderr
    assert not list(directory.glob("newsroom-*"))
    return stderr.splitlines()


def test_demo_plays_both_eras_and_serves_until_stopped(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as demo:
        lines = until(demo, "Serving ")
        told = "".join(lines)
        for revision in ("2026-07-28", "2025-11-25"):
            for role in ("reader", "editor"):
                assert f"As {role}, MCP {revision}" in told
            assert f"By a login, with the address alone, MCP {revision}" in told
        assert "Everything was as the script expects it." in told
        url = lines[-1].split()[1].removesuffix("/mcp")
        assert f"  claude mcp add --transport http newsroom {url}/mcp\n" in lines
        with urllib.request.urlopen(f"{url}/static/admin/css/base.css", timeout=10) as page:
            assert page.status == 200
        assert all("GET /static" in line for line in end(demo, signal.SIGTERM, tmp_path))


def test_demo_can_be_stopped_during_its_session(tmp_path: Path) -> None:
    with serving(tmp_path) as demo:
        until(demo, "As reader, ")
        end(demo, signal.SIGINT, tmp_path)


@pytest.mark.parametrize("wait", [0, 0.05, 0.2])
@pytest.mark.parametrize("refused", [False, True])
def test_demo_ends_with_the_last_call_on_record(refused: bool, wait: float, tmp_path: Path) -> None:
    with serving(tmp_path) as demo:
        lines = until(demo, "Serving ")
        (secret,) = {line.split()[-1] for line in lines if line.startswith("  editor  ")}
        name = "no_such_tool" if refused else "sections_list"
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        url, body = lines[-1].split()[1], json.dumps(message).encode()
        for _ in range(3):
            with urllib.request.urlopen(Request(url, body, headers), timeout=10) as answer:
                assert ("error" in json.loads(answer.read())) is refused
        time.sleep(wait)
        assert "is lost" not in "".join(end(demo, signal.SIGINT, tmp_path))
