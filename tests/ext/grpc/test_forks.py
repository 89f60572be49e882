"""Workers that are forked after their parent has called a gRPC service can call it too."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.ext.grpc.echo import DATA
from tests.support.processes import ROOT, run_python
from tests.support.protobuf import serving

pytestmark = pytest.mark.skipif("STRESS" not in os.environ, reason="part of make stress")
USERS = 8
ISSUE = f"""
import json, django
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
from mcp_bridge.tokens.models import Token
call_command("migrate", verbosity=0)
users = [User.objects.create_user(f"user{{each}}") for each in range({USERS})]
print(json.dumps({{str(each): Token.objects.issue(user=each, name="a")[1] for each in users}}))
"""


@pytest.fixture
def heard() -> list[tuple[str, str]]:
    """The user and the process of each call that the service has received."""
    return []


@pytest.fixture
def site(tmp_path: Path, heard: list[Any]) -> Iterator[tuple[int, dict[str, str], Any]]:
    """The port of gunicorn with two workers of eight threads, preloaded; tokens by user; it."""

    def look(request: Any, sent: Any, context: Any) -> Any:
        heard.append((sent["x-user"], sent["x-process"]))
        time.sleep(0.01)
        return {"number": request.number, "text": sent["x-user"]}

    descriptors = tmp_path / "echo.binpb"
    descriptors.write_bytes(DATA)
    left_out = ("PYTHONDEVMODE", "MCP_BRIDGE_TEST_DATABASE_URL")
    environment = {name: each for name, each in os.environ.items() if name not in left_out} | {
        "DJANGO_SETTINGS_MODULE": "tests.processes.grpc_settings",
        "PYTHONPATH": str(ROOT),
        "SERVED_DATABASE": str(tmp_path / "served.sqlite3"),
        "SERVED_DESCRIPTORS": str(descriptors),
    }
    tokens = json.loads(run_python("-c", ISSUE, env=environment))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["gunicorn", "tests.processes.grpc_site:wsgi", "--bind", f"127.0.0.1:{port}"]
    command += ["--preload", "--workers", "2", "--threads", "8", "--log-level", "warning"]
    with serving(DATA, {"Look": look}) as service, (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=environment | {"SERVED_TARGET": f"127.0.0.1:{service}"},
            stderr=log,
        )
        yield port, tokens, process
        process.kill()
        process.wait(30)
    assert "Traceback" not in (tmp_path / "log").read_text()


def caller(port: int, token: str) -> Callable[[int], str]:
    """Call the tool with a number and return the caller that the service has received."""

    def call(number: int) -> str:
        params = {"name": "echo_look", "arguments": {"number": number}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
        }
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request("POST", "/mcp", json.dumps(message), headers)
            answer = json.loads(connection.getresponse().read())
        told = answer["result"]["structuredContent"]
        assert told.get("number", 0) == number
        return str(told["text"])

    return call


def test_service_receives_each_calls_user_from_every_worker(
    site: tuple[int, dict[str, str], Any], heard: list[tuple[str, str]]
) -> None:
    port, tokens, process = site
    until = time.monotonic() + 60
    while True:
        try:
            caller(port, tokens["user0"])(0)
            break
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)

    def call(number: int) -> bool:
        user = f"user{number % USERS}"
        return caller(port, tokens[user])(number) == user

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(400)))
    processes = {process for _, process in heard}
    # The parent made one call before it forked.
    assert len(processes) == 3
    assert str(process.pid) in processes
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
