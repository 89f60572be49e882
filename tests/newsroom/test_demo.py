from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("mcp")

ROOT = Path(__file__).resolve().parents[2]
DEMO = [sys.executable, "manage.py", "demo"]


def environment(directory: Path) -> dict[str, str]:
    """The demo's database is made in the directory; nothing of it may stay there."""
    site = {"DJANGO_SETTINGS_MODULE": "testproject.settings", "TMPDIR": str(directory)}
    # asyncio's debugging, which that mode brings, tells of every slow step on stderr.
    left_out = ("PYTHONDEVMODE", "PYTHONUNBUFFERED")
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


def test_the_demo_plays_its_session_in_both_eras_and_ends(tmp_path: Path) -> None:
    demo = run(tmp_path, "--once", "--port", "0")
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert demo.stderr == ""
    for revision in ("2026-07-28", "2025-11-25"):
        for role in ("reader", "editor"):
            assert f"As {role}, MCP {revision}" in demo.stdout
    assert "claude mcp add --transport http newsroom http://127.0.0.1:" in demo.stdout
    assert "Everything was as the script expects it." in demo.stdout
    assert not list(tmp_path.glob("newsroom-*"))


def test_a_taken_port_is_said_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        demo = run(tmp_path, "--once", "--port", str(port))
    assert demo.returncode == 1
    assert f"Port {port} of 127.0.0.1 is taken" in demo.stderr
    assert "Traceback" not in demo.stderr


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_serves_until_it_is_stopped(tmp_path: Path, end: signal.Signals) -> None:
    demo = subprocess.Popen(
        [*DEMO, "--port", "0"],
        cwd=ROOT,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with demo:
        try:
            lines = iter(demo.stdout.readline, "")
            serving = next(line for line in lines if line.startswith("Serving "))
            url = serving.split()[1].removesuffix("/mcp")
            with urllib.request.urlopen(f"{url}/static/admin/css/base.css", timeout=10) as page:
                assert page.status == 200
            demo.send_signal(end)
            assert demo.wait(timeout=20) == 0
            assert not list(tmp_path.glob("newsroom-*"))
        finally:
            demo.kill()
