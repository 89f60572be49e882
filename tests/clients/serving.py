"""The newsroom under gunicorn or uvicorn, with a user, a token and an article for each client."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.environments import ROOT, SERVERS, programs

# As in docs/operate/deployment.md: a client must not send a request while the server closes.
COMMANDS = {
    "gunicorn": [
        *("gunicorn", "testproject.wsgi", "--threads", "8", "--keep-alive", "15"),
        *("-b", "127.0.0.1:{port}"),
    ],
    "uvicorn": [
        *("uvicorn", "testproject.asgi:application", "--lifespan", "off"),
        *("--timeout-keep-alive", "15", "--port", "{port}"),
    ],
}
URLS = {"uvicorn": "tests.clients.urls"}


QUEUED = """
    SELECT status FROM mcp_bridge_pendingcall JOIN auth_user ON auth_user.id = user_id
    WHERE username = ? AND tool = 'articles_delete'
"""


class Failure(Exception):
    """An unmet requirement; the text names it."""


@dataclass(frozen=True)
class Server:
    """A site that is being served, and the folder of its database and its record of requests."""

    name: str
    url: str
    folder: Path
    port: int
    seats: dict[str, dict[str, Any]]

    def requests(self, *tokens: str) -> list[dict[str, Any]]:
        """Return the requests with these tokens."""
        log = self.folder / "requests.jsonl"
        lines = log.read_text().splitlines() if log.is_file() else []
        return [line for line in map(json.loads, lines) if line["token"] in tokens]

    def approval(self, client: str) -> list[str]:
        """Return the command that approves the pending call of a client's user."""
        settings = [f"{name}={value}" for name, value in _settings(self.folder).items()]
        python = str(programs(SERVERS) / "python")
        return ["env", *settings, python, "-m", "tests.clients.approval", client]

    def state(self, client: str) -> tuple[bool, list[str]]:
        """
        Return whether a client's article is gone, and the status of each queued call of its user.
        """
        with closing(sqlite3.connect(self.folder / "db.sqlite3", timeout=20)) as database:
            article = "SELECT COUNT(*) FROM newsroom_article WHERE slug = ?"
            (left,) = database.execute(article, [self.seats[client]["slug"]]).fetchone()
            queued = [status for (status,) in database.execute(QUEUED, [client])]
        return left == 0, queued


@contextmanager
def serving(
    name: str, clients: list[str], folder: Path, urls: str = "", *, login: bool = False
) -> Iterator[Server]:
    """
    Serve the newsroom on a free port, with a seat for each client, until the block ends.

    With ``login`` it knows its address, so that clients can log in.
    """
    folder.mkdir(parents=True)
    seats = _seats(folder, name, clients)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [part.format(port=port) for part in COMMANDS[name]]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [programs(SERVERS) / command[0], *command[1:]],
            cwd=ROOT,
            env={
                **os.environ,
                **_settings(folder, urls or URLS.get(name, "")),
                "CLIENTS_LOG": str(folder / "requests.jsonl"),
                **({"NEWSROOM_URL": f"http://127.0.0.1:{port}"} if login else {}),
            },
            stdout=log,
            stderr=log,
        )
    try:
        _wait(process, port, folder)
        yield Server(name, f"http://127.0.0.1:{port}/mcp", folder, port, seats)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


@contextmanager
def worker(server: Server) -> Iterator[None]:
    """Run a worker that takes the tasks of a site, until the block ends."""
    command = [programs(SERVERS) / "python", "-m", "django", "db_worker", "--queue-name", "mcp"]
    env = {**os.environ, **_settings(server.folder)}
    with (server.folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--interval", "0.2", "--no-startup-delay"],
            cwd=ROOT,
            env=env,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _seats(folder: Path, server: str, clients: list[str]) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [programs(SERVERS) / "python", "-m", "tests.clients.seats", *clients],
        cwd=ROOT,
        env={**os.environ, **_settings(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise Failure(f"The site for {server} could not be made:\n{done.stderr[-3000:]}")
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def _settings(folder: Path, urls: str = "") -> dict[str, str]:
    return {
        "DJANGO_SETTINGS_MODULE": "tests.clients.settings",
        "CLIENTS_DATABASE": str(folder / "db.sqlite3"),
        "CLIENTS_URLS": urls or "testproject.urls",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _wait(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise Failure(f"The server did not start:\n{(folder / 'server.log').read_text()[-3000:]}")
