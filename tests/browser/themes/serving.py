"""The newsroom with a theme, served in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.support.processes import ROOT, run_python


def _environment(database: Path, **more: str) -> dict[str, str]:
    known = {"DJANGO_SETTINGS_MODULE": "tests.browser.themes.settings"}
    return {**os.environ, **known, "THEME_DATABASE": str(database), **more}


def prepare(folder: Path) -> dict[str, Any]:
    """Make the database; the session of its owner, and the pages."""
    found = run_python("-m", "tests.browser.themes.prepare", env=_environment(folder / "db"))
    return dict(json.loads(found))


@contextmanager
def serving(folder: Path, **values: str) -> Iterator[str]:
    """Serve a copy of the site, with these values in the environment, until the block ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    database = folder / f"{address}.db"
    shutil.copy(folder / "db", database)
    command = [sys.executable, "-m", "django", "runserver", address, "--noreload", "--insecure"]
    with (folder / f"{address}.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=_environment(database, **values), stdout=log, stderr=log
        )
    try:
        for _ in range(300):
            try:
                urlopen(f"http://{address}/admin/login/").close()
                break
            except OSError:
                assert process.poll() is None, Path(log.name).read_text()
                time.sleep(0.2)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(10)
