"""Worker processes, and the database that they share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

ROOT = Path(__file__).resolve().parents[2]
Worker = Callable[..., Any]


@pytest.fixture
def database(tmp_path: Path, transactional_db: None) -> str:
    """
    Return a database that other processes see too: the tests' own, or a file if that is SQLite's.
    """
    if connection.vendor == "sqlite":
        return str(tmp_path / "workers.sqlite3")
    return str(connection.settings_dict["NAME"])


@pytest.fixture
def start(database: str) -> Iterator[Callable[..., Worker]]:
    """Start worker processes, with variables of the environment, as functions that command them."""
    processes: list[subprocess.Popen[str]] = []
    known = {
        "DJANGO_SETTINGS_MODULE": "tests.processes.worker_settings",
        "WORKER_DATABASE": database,
    }

    def begin(**variables: str) -> Worker:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.processes.worker"],
            cwd=ROOT,
            env={**os.environ, **known, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)

        def have(do: str, **options: Any) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({"do": do, **options}) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        return have

    yield begin
    for process in processes:
        if process.poll() is None:
            process.communicate(timeout=10)
        for pipe in filter(None, (process.stdin, process.stdout)):
            pipe.close()
