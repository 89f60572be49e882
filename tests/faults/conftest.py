"""The servers of databases and of a cache, and the sites that use them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.databases import Database, MariaDB, PostgreSQL, SQLite
from tests.faults.servers import Redis, Server
from tests.faults.serving import prepare


def running(kind: Callable[[Path], Server]) -> Any:
    """Return a fixture: a server in a separate folder, with a path short enough for a socket."""

    @pytest.fixture(scope="session")
    def run() -> Iterator[Server]:
        place = Path(tempfile.mkdtemp(prefix="faults"))
        server: Server | None = None
        try:
            server = kind(place)
            if isinstance(server, Database):
                server.token = prepare(server.settings)
            yield server
        finally:
            if server is not None:
                server.stop()
                server.disks.close()
            shutil.rmtree(place, ignore_errors=True)

    return run


postgresql = running(PostgreSQL)
mariadb = running(MariaDB)
sqlite = running(SQLite)
cache = running(Redis)


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest) -> Database:
    """Return the database server that a test names."""
    server: Database = request.getfixturevalue(request.param)
    return server
