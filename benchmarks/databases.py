"""The databases of the contestants, each with the same users, and what the empty views list."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from benchmarks.contestants import Contestant
from benchmarks.servers import ROOT, ServerFailedError

VARIABLE: Final = "MCP_BRIDGE_TEST_DATABASE_URL"
DEFAULT: Final = "postgresql://postgres@127.0.0.1:5432/postgres"
PREFIX: Final = "mcp_bridge_benchmark"


class Databases:
    """Databases that go at the end; those of SQLite are made once and copied."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: dict[tuple[object, ...], tuple[Path, str]] = {}
        self.count = 0
        self.created: list[str] = []

    @cached_property
    def found(self) -> tuple[str, str]:
        """The URL of a PostgreSQL that answers, or nothing and why there is none."""
        return connect()

    def environment(
        self, contestant: Contestant, mode: str, tools: int
    ) -> tuple[dict[str, str], str]:
        """The variables of a server with a database of its own, and a token that is valid in it."""
        tools = contestant.tools or tools
        variables = inherited() | contestant.variables()
        variables |= {"BENCHMARK_MODE": mode, "BENCHMARK_TOOLS": str(tools)}
        if contestant.site in ("floor", "bare"):
            variables["BENCHMARK_DEFINITIONS"] = str(self.definitions(tools))
        self.count += 1
        if contestant.database == "postgresql":
            place = self.create(f"{PREFIX}_{self.count}")
            return variables | {"BENCHMARK_DATABASE": place}, prepare(variables, place)
        # What is in it depends on the site, the mode and its tools, and on nothing else.
        key = (contestant.site, mode, tools, variables.get("BENCHMARK_SQLITE"))
        if key not in self.made:
            original = self.folder / f"original-{self.count}.sqlite3"
            self.made[key] = original, prepare(variables, str(original))
        original, token = self.made[key]
        copy = self.folder / f"{self.count}.sqlite3"
        shutil.copyfile(original, copy)
        return variables | {"BENCHMARK_DATABASE": str(copy)}, token

    def definitions(self, tools: int) -> Path:
        """A file with what the bridge lists, so that the empty views send the same bytes."""
        path = self.folder / f"definitions-{tools}.json"
        if not path.exists():
            variables = inherited() | {
                "DJANGO_SETTINGS_MODULE": "benchmarks.site.settings",
                "BENCHMARK_SITE": "bridge",
                "BENCHMARK_MODE": "anonymous",
                "BENCHMARK_TOOLS": str(tools),
                "BENCHMARK_DATABASE": ":memory:",
            }
            path.write_text(run("benchmarks.site.define", variables))
        return path

    def create(self, name: str) -> str:
        """Make a database of PostgreSQL; returns its URL."""
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        with psycopg.connect(self.found[0], autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{name}"')
        self.created.append(name)
        parts = conninfo_to_dict(self.found[0])
        host, port = parts.get("host", "127.0.0.1"), parts.get("port", "5432")
        user, password = parts.get("user", ""), parts.get("password", "")
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@{str(host).replace('/', '%2F')}:{port}/{name}"

    def drop(self) -> None:
        if not self.created:
            return
        import psycopg

        with psycopg.connect(self.found[0], autocommit=True) as connection:
            for name in self.created:
                connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def databases() -> Iterator[Databases]:
    with tempfile.TemporaryDirectory() as folder:
        made = Databases(Path(folder))
        try:
            yield made
        finally:
            made.drop()


def connect() -> tuple[str, str]:
    """The URL of a PostgreSQL that answers, or nothing and why there is none."""
    if find_spec("psycopg") is None:
        return "", "psycopg is not installed."
    import psycopg

    url = os.environ.get(VARIABLE, DEFAULT)
    try:
        psycopg.connect(url, connect_timeout=3).close()
    except psycopg.OperationalError:
        return "", f"No PostgreSQL answers at the URL in {VARIABLE}, nor at 127.0.0.1:5432."
    return url, ""


def durability(url: str) -> str:
    """What a commit of that PostgreSQL waits for."""
    if not url:
        return "no PostgreSQL"
    import psycopg

    names = ("server_version", "fsync", "synchronous_commit")
    with psycopg.connect(url) as connection:
        version, fsync, commit = (
            (connection.execute(f"SHOW {name}").fetchone() or ("?",))[0] for name in names
        )
    return f"PostgreSQL {version.split()[0]} (fsync {fsync}, synchronous_commit {commit})"


def inherited() -> dict[str, str]:
    # Options of somebody's own would make one gunicorn differ from another, and what runs from a
    # checkout would be compiled at each start, as nothing is that is installed.
    own = {"GUNICORN_CMD_ARGS", "PYTHONDONTWRITEBYTECODE"}
    return {name: value for name, value in os.environ.items() if name not in own}


def prepare(variables: dict[str, str], place: str) -> str:
    """Make a contestant's database; returns a token that is valid in it."""
    return run("benchmarks.site.prepare", variables | {"BENCHMARK_DATABASE": place}).split()[-1]


def run(module: str, variables: dict[str, str]) -> str:
    made = subprocess.run(
        [sys.executable, "-m", module], env=variables, cwd=ROOT, capture_output=True, text=True
    )
    if made.returncode:
        raise ServerFailedError(f"{module} failed.\n{made.stderr[-3000:]}")
    return made.stdout
