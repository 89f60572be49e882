"""Django sites in separate processes, for as long as a leg of the run needs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from runner.toolbox import ROOT, Failure

# The variable that names a database of PostgreSQL, beside which one is made.
POSTGRESQL = "MCP_BRIDGE_TEST_DATABASE_URL"
SERVE = Path(__file__).with_name("serve.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A site that is being served: its MCP endpoint, and a token that opens all of it."""

    url: str
    token: str = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)


@contextmanager
def running(settings: str, server: str, *commands: str, log: Path, on: str = "") -> Iterator[Site]:
    """
    Serve a site on an empty database by ``server``, after the management commands have run.

    With ``on="postgresql"`` the database is one of PostgreSQL, for settings that can use it. The
    site's standard error is kept in ``log``. Raises Failure if it does not start.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    folder = tempfile.TemporaryDirectory()
    variables = environment(settings, Path(folder.name))
    if on == "postgresql":
        variables["CONFORMANCE_POSTGRESQL"] = empty_database()
    with (
        folder,
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, str(SERVE), server, *commands],
            cwd=ROOT,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        try:
            yield announced(process, log, variables)
        finally:
            stop(process)


@contextmanager
def workers(site: Site, number: int, log: Path) -> Iterator[None]:
    """
    Run workers of a site's tasks, and kill them at the end; their output is kept in ``log``.

    Raises Failure if one has ended before.
    """
    command = [sys.executable, "manage.py", "db_worker", "--queue-name", "mcp"]
    with log.open("wb") as output:
        started = [
            subprocess.Popen(command, cwd=ROOT, env=site.environment, stdout=output, stderr=output)
            for _ in range(number)
        ]
    try:
        yield
        if any(worker.poll() is not None for worker in started):
            raise Failure(f"A worker has ended:\n{log.read_text(errors='replace')}")
    finally:
        for worker in started:
            worker.kill()
            worker.wait()


def empty_database() -> str:
    """Make an empty database of PostgreSQL, and return its URL."""
    import psycopg

    with psycopg.connect(os.environ[POSTGRESQL], autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS conformance WITH (FORCE)")
        connection.execute("CREATE DATABASE conformance")
    return urlsplit(os.environ[POSTGRESQL])._replace(path="/conformance").geturl()


def environment(settings: str, folder: Path) -> dict[str, str]:
    """Return the variables that name the project, the settings, and (see them) its files."""
    return {
        # The newsroom would use that database.
        **{name: value for name, value in os.environ.items() if name != POSTGRESQL},
        "PYTHONPATH": str(ROOT),
        "DJANGO_SETTINGS_MODULE": settings,
        "CONFORMANCE_DATABASE": str(folder / "db.sqlite3"),
        "CONFORMANCE_CACHE": str(folder / "cache"),
    }


def announced(process: subprocess.Popen[bytes], log: Path, variables: Mapping[str, str]) -> Site:
    """Return the site's address and token once the site has printed them."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise Failure(f"The site did not start:\n{log.read_text(errors='replace')}")
    said = json.loads(line)
    url = f"http://127.0.0.1:{said['port']}/mcp"
    return Site(url=url, token=said["token"], environment=variables)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the site, which lives as long as its standard input is open."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
