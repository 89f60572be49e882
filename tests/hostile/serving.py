"""The sites under test, each on every server, in processes that end with the block."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
SITES: Final = {
    "newsroom": "tests.hostile.newsroom_settings",
    "faults": "tests.hostile.settings",
}
_APPLICATIONS: Final = "tests.hostile.applications"
_AT: Final = ("--factory", "--host", "127.0.0.1", "--port", "{port}")
_UVICORN: Final = ("uvicorn", *_AT, "--http", "h11")
_GRANIAN: Final = ("granian", *_AT, "--interface", "asgi", "--http", "1", "--no-ws")
COMMANDS: Final = {
    "gunicorn": (
        *("gunicorn", f"{_APPLICATIONS}:wsgi()", "--worker-class", "gthread", "--threads", "8"),
        # Two that start at once in a new home directory would both make that of their sockets.
        *("--bind", "127.0.0.1:{port}", "--no-control-socket"),
    ),
    "uvicorn": (*_UVICORN, "--lifespan", "off", f"{_APPLICATIONS}:asgi"),
    "direct on uvicorn": (*_UVICORN, f"{_APPLICATIONS}:direct"),
    "direct on granian": (*_GRANIAN, f"{_APPLICATIONS}:direct"),
}
# Loggers of the server itself, in a site whose own log is a file.
_ERROR: Final = re.compile(r"\[ERROR\]|^ERROR|Traceback|CRITICAL|panicked", re.MULTILINE)


@dataclass(frozen=True)
class Site:
    """A site with its rows, to be copied for each server; ``secrets`` are credentials by kind."""

    name: str
    folder: Path
    secrets: dict[str, str]


@dataclass(frozen=True)
class Server:
    """A site that is being served, and the files that record its tool runs and its log."""

    name: str
    site: str
    port: int
    pid: int
    folder: Path
    secrets: dict[str, str]

    def ran(self) -> int:
        """Return how often tools have run so far."""
        return (self.folder / "runs").stat().st_size

    def errors(self) -> list[dict[str, Any]]:
        """
        Return the records at ERROR, and a record for each error that the server itself reported.
        """
        lines = (self.folder / "errors").read_text("utf-8").splitlines()
        said = (self.folder / "output").read_text("utf-8", "replace")
        found = _ERROR.search(said)
        own = [] if found is None else [{"logger": self.name, "message": said[found.start() :]}]
        return [*map(json.loads, lines), *own]


def environment(site: str, folder: Path, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": SITES[site],
        "HOSTILE_DATABASE": str(folder / "db.sqlite3"),
        "HOSTILE_LOG": str(folder / "errors"),
        "HOSTILE_RUNS": str(folder / "runs"),
        **more,
    }


def prepare(site: str, folder: Path) -> Site:
    """Make the database of a site."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.seats"],
        cwd=ROOT,
        env=environment(site, folder),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Site(site, folder, json.loads(done.stdout))


@contextmanager
def serving(site: Site, name: str, folder: Path, *more: str, **env: str) -> Iterator[Server]:
    """Serve a copy of the site on a free port until the block ends."""
    shutil.copytree(site.folder, folder)
    for file in ("errors", "runs"):
        (folder / file).write_bytes(b"")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [part.format(port=port) for part in (*COMMANDS[name], *more)]
    is_async = "0" if name == "gunicorn" else "1"
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=environment(site.name, folder, HOSTILE_ASYNC=is_async, **env),
            stdout=output,
            stderr=output,
        )
    try:
        _wait(process, port, folder / "output")
        yield Server(name, site.name, port, process.pid, folder, site.secrets)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"The server did not start:\n{output.read_text('utf-8')[-3000:]}")
