"""The newsroom with a theme, served in a separate process."""

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


def _environment(database: Path, theme: str = "") -> dict[str, str]:
    known = {"DJANGO_SETTINGS_MODULE": "tests.browser.themes.settings", "THEME": theme}
    return {**os.environ, **known, "THEME_DATABASE": str(database)}


def prepare(folder: Path) -> dict[str, Any]:
    """Create the database; return the session of its owner and the pages."""
    found = run_python("-m", "tests.browser.themes.prepare", env=_environment(folder / "db"))
    return dict(json.loads(found))


@contextmanager
def serving(folder: Path, theme: str) -> Iterator[str]:
    """Serve a copy of the site with a theme until the block ends; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    database, output = folder / f"{address}.db", folder / f"{address}.log"
    shutil.copy(folder / "db", database)
    command = [sys.executable, "-m", "django", "runserver", address, "--noreload", "--insecure"]
    with output.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=_environment(database, theme), stdout=log, stderr=log
        )
    try:
        _wait(process, f"http://{address}/admin/login/", output)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(10)


def _wait(process: subprocess.Popen[bytes], url: str, output: Path) -> None:
    for _ in range(150):
        assert process.poll() is None, output.read_text("utf-8")
        try:
            urlopen(url).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(output.read_text("utf-8"))
